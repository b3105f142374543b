"""Child processes: tools, short-lived processes for one question, and workers, which run plugins and read drivers'
files. `telemetry_parsers/codec/worker_wire.py` defines the lines between the daemon and a worker.
"""
