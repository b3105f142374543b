"""The commands of `telemetry`, one module each: `configure` adds the arguments, `run` gives the exit status."""
