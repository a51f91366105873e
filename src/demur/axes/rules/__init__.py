"""Rules over traces: LTLf formulas, tool-call checks and JSON schemas."""
