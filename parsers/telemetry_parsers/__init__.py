"""The vendors' formats: pure functions from text or data to readings."""
