"""The running daemon."""
