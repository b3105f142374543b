"""Child processes: tools, one-question processes, and workers, which run plugins' code and read drivers' files.

`telemetry_parsers/codec/worker_wire.py` has the lines that go between the daemon and a worker.
"""
