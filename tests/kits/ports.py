"""Free ports for programs that a test starts, reserved until the test's process ends."""

import contextlib
import random
import socket

# Below the ports that Linux assigns to outgoing connections and port 0, which another process could get meanwhile.
_PORTS = range(20000, 32000)


def free_port() -> int:
    """Return a port that is free at all addresses of this machine."""
    while True:
        port = random.choice(_PORTS)
        with contextlib.suppress(OSError):  # the port is in use: another one is drawn
            _listened_nowhere(port)
            _reserve(port)
            return port


def free_address() -> str:
    """Return a loopback address with a free port."""
    return f"127.0.0.1:{free_port()}"


def _listened_nowhere(port: int) -> None:
    with socket.socket() as probe:
        probe.bind(("0.0.0.0", port))


def _reserve(port: int) -> None:
    """Reserve the port against parallel tests, by an abstract socket that closes with this process."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as reservation:
        reservation.bind(f"\0port {port} of a test of device telemetry")
        reservation.detach()
