"""The tool and the library of Moore Threads."""
