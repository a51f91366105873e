"""What the dashboard asks of the record's store."""
