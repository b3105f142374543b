"""Plain JSON forms of captures, reports and parsers, and strict decoding; worker_wire.py has the messages to workers."""
