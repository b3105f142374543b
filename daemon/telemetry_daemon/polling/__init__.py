"""When each poll is due, what comes of an attempt, and the clocks that it runs by."""
