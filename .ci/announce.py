"""Becomes the daemon that the arguments start, and says where to look once that answers, as it would tell systemd."""

from __future__ import annotations

import http.client
import os
import select
import signal
import socket
import sys

# What a terminal that systemd started has from its own unit, and would be taken for the daemon's.
NOT_OURS = ("INVOCATION_ID", "WATCHDOG_PID", "WATCHDOG_USEC")
SERVING = "STATUS=serving on "
EVERYWHERE = ("0.0.0.0", "[::]", "")  # noqa: S104  # compared with, not listened on
PATIENCE_SECONDS = 5


def main(command: list[str]) -> None:
    """Never returns: this process becomes the daemon, and one beside it waits for its word."""
    name = f"telemetry-run-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as word:
        word.bind(f"\0{name}")
        daemon = os.pidfd_open(os.getpid())
        # Born twice, so that the daemon has no child that it does not know.
        if os.fork() == 0:
            if os.fork() == 0:
                signal.signal(signal.SIGINT, signal.SIG_DFL)
                announce(word, daemon)
            os._exit(0)
        os.wait()
    environment = {name: text for name, text in os.environ.items() if name not in NOT_OURS}
    os.execvpe(command[0], command, environment | {"NOTIFY_SOCKET": f"@{name}"})  # noqa: S606  # no shell is wanted


def announce(word: socket.socket, daemon: int) -> None:
    """Say the address when the daemon is ready; nothing where it ends before."""
    while word.fileno() in select.select([word.fileno(), daemon], [], [])[0]:
        lines = word.recv(4096).decode(errors="replace").splitlines()
        for line in lines:
            if line.startswith(SERVING):
                print(where(line.removeprefix(SERVING).partition(",")[0]), flush=True)
                return


def where(address: str) -> str:
    """What a person does to see an address, for each of those that a daemon can listen on."""
    if address.startswith("unix:"):
        return f"listening on {address}"
    host, _, port = address.rpartition(":")
    local = "localhost" if host in EVERYWHERE else host.strip("[]")
    shown = socket.gethostname() if host in EVERYWHERE else host
    return f"open {scheme(local, int(port))}://{shown}:{port}/ – Ctrl-C ends it"


def scheme(host: str, port: int) -> str:
    """`https` where a plain question is refused as one, else `http`."""
    asked = http.client.HTTPConnection(host, port, timeout=PATIENCE_SECONDS)
    try:
        asked.request("GET", "/healthz")
        return "https" if asked.getresponse().status == http.HTTPStatus.BAD_REQUEST else "http"
    except (OSError, http.client.HTTPException):  # a look at it will tell more
        return "http"
    finally:
        asked.close()


if __name__ == "__main__":
    main(sys.argv[1:])
