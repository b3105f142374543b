"""Output of readings: pure functions from a snapshot to text."""
