"""The configuration: read, laid over by environment and flags, validated in a child, and written out."""
