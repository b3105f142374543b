"""Moore Threads: its tool and its library."""
