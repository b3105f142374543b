"""Start a daemon in this process, and print its address once the daemon reports to systemd's protocol that it is ready."""

from __future__ import annotations

import http.client
import os
import select
import signal
import socket
import sys

# Variables of the terminal's own unit, which the daemon would read as its own.
NOT_OURS = ("INVOCATION_ID", "WATCHDOG_PID", "WATCHDOG_USEC")
SERVING = "STATUS=serving on "
EVERYWHERE = ("0.0.0.0", "[::]", "")  # noqa: S104  # compared with, not listened on
PATIENCE_SECONDS = 5


def main(command: list[str]) -> None:
    """Replace this process by the daemon, and leave a second process that waits for the daemon's message."""
    name = f"telemetry-run-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as word:
        word.bind(f"\0{name}")
        daemon = os.pidfd_open(os.getpid())
        # The fork is doubled, so that the daemon has no child process that it does not know.
        if os.fork() == 0:
            if os.fork() == 0:
                signal.signal(signal.SIGINT, signal.SIG_DFL)
                announce(word, daemon)
            os._exit(0)
        os.wait()
    environment = {name: text for name, text in os.environ.items() if name not in NOT_OURS}
    os.execvpe(command[0], command, environment | {"NOTIFY_SOCKET": f"@{name}"})  # noqa: S606  # no shell is wanted


def announce(word: socket.socket, daemon: int) -> None:
    """Print the addresses when the daemon is ready, or nothing if the daemon exits before."""
    while word.fileno() in select.select([word.fileno(), daemon], [], [])[0]:
        lines = word.recv(4096).decode(errors="replace").splitlines()
        for line in lines:
            if line.startswith(SERVING):
                print(opening_hint(line.removeprefix(SERVING).partition(",")[0]), flush=True)
                return


def opening_hint(address: str) -> str:
    """Return how a user opens an address, for each kind of address on which a daemon can listen."""
    if address.startswith("unix:"):
        return f"listening on {address}"
    host, _, port = address.rpartition(":")
    local = "localhost" if host in EVERYWHERE else host.strip("[]")
    shown = socket.gethostname() if host in EVERYWHERE else host
    return f"open {scheme(local, int(port))}://{shown}:{port}/ – Ctrl-C ends it"


def scheme(host: str, port: int) -> str:
    """Return `https` if the server refuses a plain request because it expects TLS, else `http`."""
    connection = http.client.HTTPConnection(host, port, timeout=PATIENCE_SECONDS)
    try:
        connection.request("GET", "/healthz")
        return "https" if connection.getresponse().status == http.HTTPStatus.BAD_REQUEST else "http"
    except (OSError, http.client.HTTPException):  # The user's own request will show the reason.
        return "http"
    finally:
        connection.close()


if __name__ == "__main__":
    main(sys.argv[1:])
