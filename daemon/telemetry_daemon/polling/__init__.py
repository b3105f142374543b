"""When each poll is due, what its answer changes, and the clocks that decide it."""
