"""The configuration: the file, overridden by environment and flags, validated in a child process."""
