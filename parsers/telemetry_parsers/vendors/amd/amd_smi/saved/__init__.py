"""amd-smi's outputs that no poll asks for and `telemetry parse` meets: texts, tables, CSV, the overview."""
