"""Plain JSON forms of captures, reports, parsers and messages to workers, and strict decoding."""
