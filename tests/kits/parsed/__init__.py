"""What parsers read in texts, as short as a test compares it."""
