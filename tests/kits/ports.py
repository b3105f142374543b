"""Ports for programs that a test starts: free, and nobody else's until the test's process ends."""

from __future__ import annotations

import contextlib
import random
import socket

# Below those that Linux gives to outgoing connections and to who listens at port 0: such a one could be taken meanwhile.
_PORTS = range(20000, 32000)


def free_port() -> int:
    """A port that nobody has at any address of this machine."""
    while True:
        port = random.choice(_PORTS)
        with contextlib.suppress(OSError):  # somebody has it: another one is drawn
            _listened_nowhere(port)
            _reserve(port)
            return port


def free_address() -> str:
    """A port of loopback that nobody has."""
    return f"127.0.0.1:{free_port()}"


def _listened_nowhere(port: int) -> None:
    with socket.socket() as probe:
        probe.bind(("0.0.0.0", port))


def _reserve(port: int) -> None:
    """Keep it from the tests that run side by side: the name is taken until this process ends and its descriptors with it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as reservation:
        reservation.bind(f"\0port {port} of a test of device telemetry")
        reservation.detach()
