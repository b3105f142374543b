"""Who listens on a TCP port, as far as /proc tells it to this user."""

from __future__ import annotations

import contextlib
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

PROC = Path("/proc")
# A node can hold millions of open files, and nobody waits for that answer.
PATIENCE_SECONDS = 0.5
_LISTENING = "0A"
_WORD_BYTES = 4


def taken(port: int, clashes: Callable[[tuple[str, int]], bool]) -> str:
    """That a port is in use, by whom, and what to do; `clashes` says whether a listener's address is in the way."""
    try:
        found = {inode: user for place, user, inode in listeners(port) if clashes(place)}
        owner = _holder(set(found))
    except (OSError, ValueError):  # no /proc, or one that reads otherwise
        found, owner = {}, None
    if owner is not None:
        return f"port {port} is already in use by {owner}; stop it or set another listen_address"
    users = "".join(f", by a process of user ID {user}" for user in sorted(set(found.values()))[:1])
    asking = f"`sudo ss -tanp 'sport = :{port}'` shows the process"
    return f"port {port} is already in use{users}; {asking}: stop it or set another listen_address"


def listeners(port: int) -> Iterator[tuple[tuple[str, int], int, int]]:
    """Yield the address, the user ID and the inode of each socket that listens on the port. Raises OSError."""
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(FileNotFoundError), (PROC / "net" / name).open() as table:  # no IPv6 here
            for line in table:
                _, local, _, state, _, _, _, user, _, inode, *_ = line.split()
                if state == _LISTENING and local.endswith(f":{port:04X}"):
                    yield (_host(local.partition(":")[0]), port), int(user), int(inode)


def _host(digits: str) -> str:
    """The address of which the kernel prints each 32-bit word as a number of this machine's."""
    raw = bytes.fromhex(digits)
    words = [raw[place : place + _WORD_BYTES] for place in range(0, len(raw), _WORD_BYTES)]
    network = b"".join(word[::-1] if sys.byteorder == "little" else word for word in words)
    return socket.inet_ntop(socket.AF_INET if len(words) == 1 else socket.AF_INET6, network)


def _holder(inodes: set[int]) -> str | None:
    """The name and the number of a process that holds one of the sockets, of those whose files this user may see."""
    wanted = {f"socket:[{inode}]" for inode in inodes}
    end = time.monotonic() + PATIENCE_SECONDS
    for process in PROC.iterdir() if wanted else ():
        if time.monotonic() > end:
            return None
        if process.name.isdigit() and not wanted.isdisjoint(_open_files(process)):
            name = (process / "comm").read_text(errors="replace").strip()
            return f"{name if name.isprintable() else ascii(name)} (process {process.name})"
    return None


def _open_files(process: Path) -> Iterator[str]:
    with contextlib.suppress(OSError):  # another user's, or ended
        for file in list((process / "fd").iterdir()):
            with contextlib.suppress(OSError):  # closed since
                yield str(file.readlink())
