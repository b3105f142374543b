"""The daemon and the commands. All side effects are in this package."""
