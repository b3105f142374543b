"""Worker processes, which run a plugin's code, ask libraries and read drivers' files: the daemon's side and the inside.

`telemetry_parsers/codec/wire.py` has the lines that go between the two.
"""
