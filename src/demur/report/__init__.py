"""What people see: values in, lines of text out; nothing here prints."""
