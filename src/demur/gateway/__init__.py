"""The reverse proxy that audits, decides and records every exchange."""
