"""What no poll asks for: CSV, and the keys of `--showmetrics`, ROCm 1 and 2; only `telemetry parse` meets them."""
