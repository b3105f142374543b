"""Intel: its tool."""
