"""MetaX: its tool."""
