"""Input and output: finds, unpacks, recognises and reads files, each in its own process, and queries telemetry of the same time."""
