"""What one tool's several outputs say together."""
