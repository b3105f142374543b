"""The HTTP site of the daemon."""
