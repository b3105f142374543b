"""What the facts of all files say together: of each rank, of the slowest rank, and why a step is slow."""
