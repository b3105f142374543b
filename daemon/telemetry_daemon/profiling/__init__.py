"""What `telemetry profile` does with files: finds, unpacks, recognises and reads them, each in a process of its own.

The running daemon never imports any of it.
"""
