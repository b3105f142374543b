"""Moore Threads' tool and library."""
