"""MetaX's tool."""
