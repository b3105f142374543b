"""Intel's tool."""
