"""Reports the state of the service to systemd (sd_notify)."""

from __future__ import annotations

import os
import socket
import time

from telemetry_parsers.units import integer

_SEND_TIMEOUT_SECONDS = 1.0


def report_ready(status: str = "ready") -> bool:
    """Report that the start or a reload has finished."""
    return notify("READY=1", f"STATUS={status}")


def report_reloading() -> bool:
    """Report that a reload has begun. The next `report_ready` ends it."""
    return notify("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")


def report_stopping() -> bool:
    """Report that the service is stopping."""
    return notify("STOPPING=1")


def report_alive() -> bool:
    """Report to systemd's watchdog that the service is alive."""
    return notify("WATCHDOG=1")


def notify(*assignments: str) -> bool:
    """Send assignments such as `READY=1`, and return whether this succeeded."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return False
    message = "\n".join(" ".join(assignment.splitlines()) for assignment in assignments)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.settimeout(_SEND_TIMEOUT_SECONDS)
            sender.connect("\0" + address[1:] if address.startswith("@") else address)
            sender.sendall(message.encode(errors="replace"))
    except (OSError, ValueError):  # the daemon continues without systemd
        return False
    return True


def watchdog_interval() -> float | None:
    """Return the seconds between calls of `report_alive`, or None without a watchdog."""
    pid, microseconds = os.environ.get("WATCHDOG_PID", ""), integer(os.environ.get("WATCHDOG_USEC", ""))
    return microseconds / 2e6 if microseconds and pid in ("", str(os.getpid())) else None
