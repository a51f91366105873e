"""The dashboard: pages, queries and their server."""
