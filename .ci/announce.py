"""Replace this process with a daemon, and print the daemon's address when it reports through NOTIFY_SOCKET that it is ready."""

from __future__ import annotations

import http.client
import os
import select
import signal
import socket
import sys

# If the terminal runs in a systemd unit, these variables describe that unit, not the daemon's.
UNIT_VARIABLES = ("INVOCATION_ID", "WATCHDOG_PID", "WATCHDOG_USEC")
SERVING = "STATUS=serving on "
WILDCARD_HOSTS = ("0.0.0.0", "[::]", "")  # noqa: S104  # compared with, not listened on
TIMEOUT_SECONDS = 5


def main(command: list[str]) -> None:
    """Replace this process with the daemon. A second process waits for the daemon's message."""
    socket_name = f"telemetry-run-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify_socket:
        notify_socket.bind(f"\0{socket_name}")
        daemon_pidfd = os.pidfd_open(os.getpid())
        # Fork twice, so that the daemon does not inherit an unknown child process.
        if os.fork() == 0:
            if os.fork() == 0:
                signal.signal(signal.SIGINT, signal.SIG_DFL)
                announce(notify_socket, daemon_pidfd)
            os._exit(0)
        os.wait()
    environment = {name: text for name, text in os.environ.items() if name not in UNIT_VARIABLES}
    os.execvpe(command[0], command, environment | {"NOTIFY_SOCKET": f"@{socket_name}"})  # noqa: S606  # no shell is wanted


def announce(notify_socket: socket.socket, daemon_pidfd: int) -> None:
    """Print how to open the daemon's address when the daemon is ready. Print nothing if it exits before that."""
    while notify_socket.fileno() in select.select([notify_socket.fileno(), daemon_pidfd], [], [])[0]:
        lines = notify_socket.recv(4096).decode(errors="replace").splitlines()
        for line in lines:
            if line.startswith(SERVING):
                print(opening_hint(line.removeprefix(SERVING).partition(",")[0]), flush=True)
                return


def opening_hint(address: str) -> str:
    """Return a hint for users on how to open an address, which is `HOST:PORT` or `unix:PATH`."""
    if address.startswith("unix:"):
        return f"listening on {address}"
    host, _, port = address.rpartition(":")
    probed_host = "localhost" if host in WILDCARD_HOSTS else host.strip("[]")
    shown_host = socket.gethostname() if host in WILDCARD_HOSTS else host
    return f"open {scheme(probed_host, int(port))}://{shown_host}:{port}/ – Ctrl-C ends it"


def scheme(host: str, port: int) -> str:
    """Return `https` if the server refuses a plain request because it expects TLS, else `http`."""
    connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_SECONDS)
    try:
        connection.request("GET", "/healthz")
        return "https" if connection.getresponse().status == http.HTTPStatus.BAD_REQUEST else "http"
    except (OSError, http.client.HTTPException):  # The user's own request will show the reason.
        return "http"
    finally:
        connection.close()


if __name__ == "__main__":
    main(sys.argv[1:])
