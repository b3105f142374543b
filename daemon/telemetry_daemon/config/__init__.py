"""The configuration: the file with environment and flags laid over it, validated in a child process."""
