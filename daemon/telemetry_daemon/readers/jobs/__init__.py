"""What schedulers' hooks say of jobs: the file that `telemetry job` writes for each."""
