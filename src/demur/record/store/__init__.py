"""Where the log is kept: SQLite or PostgreSQL behind one interface."""
