"""Plain JSON forms of captures, reports and parsers, and the strict way back; worker_wire.py is what workers are sent."""
