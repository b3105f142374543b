"""Listening sockets, which may share a port with an older socket for a while, and the process that uses a port."""

from __future__ import annotations

import contextlib
import errno
import socket
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from telemetry_daemon.guarded import named
from telemetry_daemon.guarded.folders import UnsafeError
from telemetry_daemon.guarded.named import bind_unix_socket
from telemetry_daemon.web.addresses import UNIX_PREFIX, ListenError, TcpAddress, UnixAddress, WebError, parse_address
from telemetry_parsers.dataclass import dataclass

BACKLOG = 4096  # the clients of other connections try again after a second
# Inherited by each connection. By default the kernel buffers up to 4 MB for a client that does not read.
SEND_BUFFER_BYTES = 256 * 1024

_REMEDIES = {
    errno.EADDRINUSE: "already in use; stop the process that uses it (`ss -lxp` shows which) or choose another path",
    errno.EADDRNOTAVAIL: "this machine has no such address; use one that `ip address` shows, or :PORT for all",
    errno.EACCES: "permission denied; choose a port above 1023 or a folder that the service user may write",
    errno.EPERM: "permission denied; choose a port above 1023 or a folder that the service user may write",
    errno.EAFNOSUPPORT: "this machine has no IPv6; give an IPv4 address",
    errno.ENOENT: "the folder does not exist; create it first",
    errno.EMFILE: "no file descriptors are left; raise LimitNOFILE",
}
PROC = Path("/proc")
# The search for the process stops after this time, because a node can have millions of open files.
PATIENCE_SECONDS = 0.5
_LISTENING = "0A"
_WORD_BYTES = 4


@dataclass(frozen=True, slots=True, eq=False)
class Listener:
    """A listening socket, its address in the settings, and its real address."""

    text: str
    socket: socket.socket
    address: str
    inode: int = 0

    def close(self) -> None:
        """Stop listening, and remove the Unix socket if it is still ours."""
        if self.socket.family == socket.AF_UNIX:
            path = Path(self.address.removeprefix(UNIX_PREFIX))
            with contextlib.suppress(OSError):  # another process has removed it
                if path.stat().st_ino == self.inode:
                    named.remove(path)
        self.socket.close()


def open_listener(text: str, beside: Iterable[Listener] = ()) -> Listener:
    """Return a listening socket at the address; the given listeners may share its port for a while."""
    address = parse_address(text)
    try:
        if isinstance(address, UnixAddress):
            return _listen_unix(text, address.path)
        return _listen_tcp(text, address, [old for old in beside if old.socket.family != socket.AF_UNIX])
    except UnsafeError as error:
        raise ListenError(f"cannot listen on {text}: {error}") from error
    except OSError as error:
        if error.errno == errno.EADDRINUSE and isinstance(address, TcpAddress):
            remedy = _describe_port_conflict(text, address)
        else:
            remedy = _REMEDIES.get(error.errno or 0, error.strerror or str(error))
        raise ListenError(f"cannot listen on {text}: {remedy}") from error


def _describe_port_conflict(text: str, address: TcpAddress) -> str:
    """Return that the port is in use, by which process, and the remedy."""
    port = address.port
    local = _resolve(text, address)[1][:2] if address.host else ("::", port)
    try:
        found = {inode: user for other, user, inode in sockets_on(port) if _takes(other, local) or _takes(local, other)}
        owner = _holder(set(found))
    except (OSError, ValueError):  # no /proc, or one that reads otherwise
        found, owner = {}, None
    if owner is not None:
        return f"port {port} is already in use by {owner}; stop it or set another listen_address"
    users = "".join(f", by a process of user ID {user}" for user in sorted(set(found.values()))[:1])
    asking = f"`sudo ss -tanp 'sport = :{port}'` shows the process"
    return f"port {port} is already in use{users}; {asking}: stop it or set another listen_address"


def covers(listeners: Iterable[Listener], local_address: object) -> bool:
    """Return whether one of the listeners accepts connections to this local address (as `getsockname` returns it)."""
    return any(_takes(listener.socket.getsockname(), local_address) for listener in listeners)


def _takes(listening_at: object, local_address: object) -> bool:
    if not (isinstance(listening_at, tuple) and isinstance(local_address, tuple)):
        return listening_at == local_address
    host = str(local_address[0]).removeprefix("::ffff:")
    all_of_its_kind = "0.0.0.0" if "." in host else "::"  # noqa: S104  # compared, not bound
    return listening_at[1] == local_address[1] and listening_at[0] in {host, all_of_its_kind, "::"}


def _listen_unix(text: str, path: str) -> Listener:
    try:
        return listening(text, bind_unix_socket(Path(path)), path)
    except FileExistsError as error:
        raise WebError(f"cannot listen on {text}: {error.strerror}; remove the file or choose another path") from None


def listening(text: str, unix_socket: socket.socket, path: str) -> Listener:
    """Return a listener on a Unix socket that is bound to the path."""
    try:
        unix_socket.listen(BACKLOG)
        unix_socket.settimeout(0)
        return Listener(text, unix_socket, f"{UNIX_PREFIX}{path}", Path(path).stat().st_ino)
    except BaseException:
        unix_socket.close()
        raise


def _listen_tcp(text: str, address: TcpAddress, beside: list[Listener]) -> Listener:
    if address.host:
        family, sockaddr = _resolve(text, address)
        listening = _bind(family, sockaddr, beside)
    else:
        listening = _bind_all_interfaces(address.port, beside)
    host, port = listening.getsockname()[:2]
    return Listener(text, listening, f"[{host}]:{port}" if ":" in host else f"{host}:{port}")


def _resolve(text: str, address: TcpAddress) -> tuple[int, tuple[object, ...]]:
    """Return the first IPv4 address of a name, else its first address, as exporters in Go do."""
    # For str, Python loads a codec for international names, which stays in memory.
    host = address.host.encode("ascii") if address.host.isascii() else address.host
    try:
        entries = socket.getaddrinfo(host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError) as error:
        raise ListenError(
            f"cannot listen on {text}: the name {address.host!r} cannot be resolved; check it, or give an IP address"
        ) from error
    family, _, _, _, sockaddr = next((entry for entry in entries if entry[0] == socket.AF_INET), entries[0])
    return family, sockaddr


def _bind_all_interfaces(port: int, beside: list[Listener]) -> socket.socket:
    try:
        return _bind(socket.AF_INET6, ("::", port), beside)
    except OSError as error:
        if error.errno not in {errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL}:
            raise
        return _bind(socket.AF_INET, ("0.0.0.0", port), beside)  # noqa: S104  # the operator asked for all interfaces


def _bind(family: int, sockaddr: tuple[object, ...], beside: list[Listener]) -> socket.socket:
    # With an explicit IPPROTO_TCP, asyncio disables Nagle's algorithm, which would delay each response by 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        if family == socket.AF_INET6:
            # "::" accepts IPv4 as well, as in exporters written in Go.
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(sockaddr[0] != "::"))
        _listen_beside(listening, sockaddr, beside)
        listening.settimeout(0)
    except BaseException:
        listening.close()
        raise
    return listening


def _listen_beside(listening: socket.socket, sockaddr: tuple[object, ...], beside: list[Listener]) -> None:
    """Listen, if necessary beside an old listener that will be closed (127.0.0.1:9100 becomes :9100)."""
    try:
        listening.bind(sockaddr)
        listening.listen(BACKLOG)
    except OSError as error:
        if error.errno != errno.EADDRINUSE or not beside:
            raise
        # SO_REUSEPORT is set only for bind and listen, which need it: otherwise a second daemon could use the port.
        pair = [listening, *(old.socket for old in beside)]
        for member in pair:
            member.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            listening.bind(sockaddr)
            listening.listen(BACKLOG)
        finally:
            for member in pair:
                member.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 0)


def sockets_on(port: int) -> Iterator[tuple[tuple[str, int], int, int]]:
    """Yield the address, the user ID and the inode of each socket that listens on the port. Raises OSError."""
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(FileNotFoundError), (PROC / "net" / name).open() as table:  # no IPv6 here
            for line in table:
                _, local, _, state, _, _, _, user, _, inode, *_ = line.split()
                if state == _LISTENING and local.endswith(f":{port:04X}"):
                    yield (_host(local.partition(":")[0]), port), int(user), int(inode)


def _host(digits: str) -> str:
    """Return the address, of which the kernel prints each 32-bit word in the machine's byte order."""
    raw = bytes.fromhex(digits)
    words = [raw[start : start + _WORD_BYTES] for start in range(0, len(raw), _WORD_BYTES)]
    network = b"".join(word[::-1] if sys.byteorder == "little" else word for word in words)
    return socket.inet_ntop(socket.AF_INET if len(words) == 1 else socket.AF_INET6, network)


def _holder(inodes: set[int]) -> str | None:
    """Return name and PID of a process that holds one of the sockets, if this user may read its files."""
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
    with contextlib.suppress(OSError):  # a process of another user, or one that has ended
        for file in list((process / "fd").iterdir()):
            with contextlib.suppress(OSError):  # closed since
                yield str(file.readlink())
