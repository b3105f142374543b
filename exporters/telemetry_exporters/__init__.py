"""How readings are shared: pure functions from a snapshot to text."""
