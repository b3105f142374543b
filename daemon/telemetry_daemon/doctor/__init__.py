"""What `telemetry doctor` examines: facts are collected at the edge, and examinations make findings of them."""
