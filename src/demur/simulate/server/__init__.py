"""The simulator's HTTP server."""
