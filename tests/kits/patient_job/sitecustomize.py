"""Let `telemetry job` take as long as it needs on a busy machine. Python imports this module first."""

from telemetry_daemon.readers.jobs import hook_process

hook_process._MAX_SECONDS = 60.0  # noqa: SLF001  # no interface has it
