"""Third-party parsers: found, verified, and run in a separate process."""
