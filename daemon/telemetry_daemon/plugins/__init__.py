"""Third-party parsers: found, checked, and run in a process of their own."""
