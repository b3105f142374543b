"""Reads jobs from the files that schedulers' hooks write with `telemetry job`."""
