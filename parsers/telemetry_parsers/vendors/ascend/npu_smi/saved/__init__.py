"""What no poll asks npu-smi for: other sub-commands, and answers without their command lines, for `telemetry parse`."""
