"""The commands of `telemetry`, one module each: `configure` adds the arguments, `run` returns the exit status."""
