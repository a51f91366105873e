"""Where the outside is touched: files, settings."""
