"""How readings are shown: pure functions from a snapshot to text."""
