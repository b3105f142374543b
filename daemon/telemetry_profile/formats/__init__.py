"""The formats of profilers; their modules do not import each other."""
