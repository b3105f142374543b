"""The commands of `telemetry`: `configure` adds the arguments, `run` returns the exit status."""
