"""All that touches the outside: finds, unpacks, recognises and reads files, each in a process of its own, and asks telemetry of the same seconds."""
