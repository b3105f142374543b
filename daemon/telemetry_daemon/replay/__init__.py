"""A recording played again, through the parsers that are installed here."""
