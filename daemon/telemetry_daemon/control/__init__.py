"""The control socket of the running daemon, and the commands' way to it."""
