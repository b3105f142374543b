"""What the vendors say: pure functions from text or data to readings."""
