"""OpenTelemetry spans, in the attribute conventions that tools use."""
