"""The guard of a stream: what may pass before it has been judged."""
