"""Opens listening sockets, and finds the process that uses a port."""

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

BACKLOG = 4096  # when the backlog is full, clients try again after a second
# Connections inherit this size from the listener. The default is up to 4 MB.
SEND_BUFFER_BYTES = 256 * 1024

_REMEDIES = {
    errno.EADDRINUSE: "already in use; stop the process that uses it (`ss -lxp` shows which) or choose another path",
    errno.EADDRNOTAVAIL: "this machine has no such address; use one that `ip address` shows, or :PORT for all",
    errno.EACCES: "permission denied; choose a port above 1023 or a folder that is writable for the service's user",
    errno.EPERM: "permission denied; choose a port above 1023 or a folder that is writable for the service's user",
    errno.EAFNOSUPPORT: "this machine has no IPv6; give an IPv4 address",
    errno.ENOENT: "the folder does not exist; create it first",
    errno.EMFILE: "no file descriptors are left; raise LimitNOFILE",
}
PROC = Path("/proc")
# The search for the process that uses a port has a time limit, because a node can have millions of open files.
SEARCH_SECONDS = 0.5
_LISTENING = "0A"
_WORD_BYTES = 4


@dataclass(frozen=True, slots=True, eq=False)
class Listener:
    """A listening socket. `setting` is the configured address, and `address` has the actual port."""

    setting: str
    socket: socket.socket
    address: str
    inode: int = 0

    def close(self) -> None:
        """Stop listening, and remove the file of a Unix socket."""
        if self.socket.family == socket.AF_UNIX:
            path = Path(self.address.removeprefix(UNIX_PREFIX))
            with contextlib.suppress(OSError):  # the file was removed
                if path.stat().st_ino == self.inode:
                    named.remove(path)
        self.socket.close()


def open_listener(setting: str, old_listeners: Iterable[Listener] = ()) -> Listener:
    """Listen at an address. Raise WebError if it is invalid, ListenError if the system refuses to listen."""
    address = parse_address(setting)
    try:
        if isinstance(address, UnixAddress):
            return _listen_unix(setting, address.path)
        return _listen_tcp(setting, address, [old for old in old_listeners if old.socket.family != socket.AF_UNIX])
    except UnsafeError as error:
        raise ListenError(f"cannot listen on {setting}: {error}") from error
    except OSError as error:
        if error.errno == errno.EADDRINUSE and isinstance(address, TcpAddress):
            remedy = _describe_port_conflict(setting, address)
        else:
            remedy = _REMEDIES.get(error.errno or 0, error.strerror or str(error))
        raise ListenError(f"cannot listen on {setting}: {remedy}") from error


def _describe_port_conflict(setting: str, address: TcpAddress) -> str:
    port = address.port
    local_address = _resolve(setting, address)[1][:2] if address.host else ("::", port)
    try:
        uids_by_inode = {
            inode: uid
            for listening_address, uid, inode in sockets_on(port)
            if _accepts(listening_address, local_address) or _accepts(local_address, listening_address)
        }
        process_text = _describe_socket_owner(set(uids_by_inode))
    except (OSError, ValueError):  # /proc is missing or has another format
        uids_by_inode, process_text = {}, None
    if process_text is not None:
        return f"port {port} is already in use by {process_text}; stop it or set another listen_address"
    user_text = "".join(f", by a process of user ID {uid}" for uid in sorted(set(uids_by_inode.values()))[:1])
    command = f"`sudo ss -tanp 'sport = :{port}'` shows the process"
    return f"port {port} is already in use{user_text}; {command}: stop it or set another listen_address"


def is_listening_at(listeners: Iterable[Listener], local_address: object) -> bool:
    """Return whether a listener accepts connections to this local address."""
    return any(_accepts(listener.socket.getsockname(), local_address) for listener in listeners)


def _accepts(listening_address: object, local_address: object) -> bool:
    if not (isinstance(listening_address, tuple) and isinstance(local_address, tuple)):
        return listening_address == local_address
    host = str(local_address[0]).removeprefix("::ffff:")
    wildcard = "0.0.0.0" if "." in host else "::"  # noqa: S104  # compared, not bound
    return listening_address[1] == local_address[1] and listening_address[0] in {host, wildcard, "::"}


def _listen_unix(setting: str, path: str) -> Listener:
    try:
        return listen_on_unix_socket(setting, bind_unix_socket(Path(path)), path)
    except FileExistsError as error:
        reason = f"{error.strerror}; remove the file or choose another path"
        raise WebError(f"cannot listen on {setting}: {reason}") from None


def listen_on_unix_socket(setting: str, unix_socket: socket.socket, path: str) -> Listener:
    """Listen on a Unix socket that is already bound to this path."""
    try:
        unix_socket.listen(BACKLOG)
        unix_socket.settimeout(0)
        return Listener(setting, unix_socket, f"{UNIX_PREFIX}{path}", Path(path).stat().st_ino)
    except BaseException:
        unix_socket.close()
        raise


def _listen_tcp(setting: str, address: TcpAddress, old_listeners: list[Listener]) -> Listener:
    if address.host:
        family, sockaddr = _resolve(setting, address)
        listening_socket = _open_socket(family, sockaddr, old_listeners)
    else:
        listening_socket = _open_on_all_interfaces(address.port, old_listeners)
    host, port = listening_socket.getsockname()[:2]
    return Listener(setting, listening_socket, f"[{host}]:{port}" if ":" in host else f"{host}:{port}")


def _resolve(setting: str, address: TcpAddress) -> tuple[int, tuple[object, ...]]:
    """Return the first address of the host name, preferably IPv4, as exporters in Go do."""
    # For a str, Python would load the IDNA codec, which stays in memory.
    host = address.host.encode("ascii") if address.host.isascii() else address.host
    try:
        entries = socket.getaddrinfo(host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError) as error:
        reason = f"the name {address.host!r} cannot be resolved; check it, or give an IP address"
        raise ListenError(f"cannot listen on {setting}: {reason}") from error
    family, _, _, _, sockaddr = next((entry for entry in entries if entry[0] == socket.AF_INET), entries[0])
    return family, sockaddr


def _open_on_all_interfaces(port: int, old_listeners: list[Listener]) -> socket.socket:
    try:
        return _open_socket(socket.AF_INET6, ("::", port), old_listeners)
    except OSError as error:
        if error.errno not in {errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL}:
            raise
        return _open_socket(socket.AF_INET, ("0.0.0.0", port), old_listeners)  # noqa: S104  # the operator asked for all interfaces


def _open_socket(family: int, sockaddr: tuple[object, ...], old_listeners: list[Listener]) -> socket.socket:
    # With an explicit IPPROTO_TCP, asyncio disables Nagle's algorithm, which delays responses by 40 ms.
    listening_socket = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening_socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        if family == socket.AF_INET6:
            # "::" also accepts IPv4, as in exporters written in Go.
            listening_socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(sockaddr[0] != "::"))
        _bind_and_listen(listening_socket, sockaddr, old_listeners)
        listening_socket.settimeout(0)
    except BaseException:
        listening_socket.close()
        raise
    return listening_socket


def _bind_and_listen(
    listening_socket: socket.socket, sockaddr: tuple[object, ...], old_listeners: list[Listener]
) -> None:
    """Bind and listen, even if an old listener of this process uses the port."""
    try:
        listening_socket.bind(sockaddr)
        listening_socket.listen(BACKLOG)
    except OSError as error:
        if error.errno != errno.EADDRINUSE or not old_listeners:
            raise
        # SO_REUSEPORT is cleared after `listen`. Otherwise, a second daemon could use the port.
        sockets = [listening_socket, *(old.socket for old in old_listeners)]
        for listener in sockets:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            listening_socket.bind(sockaddr)
            listening_socket.listen(BACKLOG)
        finally:
            for listener in sockets:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 0)


def sockets_on(port: int) -> Iterator[tuple[tuple[str, int], int, int]]:
    """Yield address, user ID and inode of each socket that listens on this port. Raise OSError if /proc is unreadable."""
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(FileNotFoundError), (PROC / "net" / name).open() as table:  # no tcp6 without IPv6
            for line in table:
                _, local_address, _, state, _, _, _, uid, _, inode, *_ = line.split()
                if state == _LISTENING and local_address.endswith(f":{port:04X}"):
                    yield (_decode_host(local_address.partition(":")[0]), port), int(uid), int(inode)


def _decode_host(digits: str) -> str:
    """Convert an IP address from the kernel's hexadecimal form."""
    raw = bytes.fromhex(digits)
    words = [raw[start : start + _WORD_BYTES] for start in range(0, len(raw), _WORD_BYTES)]
    network = b"".join(word[::-1] if sys.byteorder == "little" else word for word in words)
    return socket.inet_ntop(socket.AF_INET if len(words) == 1 else socket.AF_INET6, network)


def _describe_socket_owner(inodes: set[int]) -> str | None:
    socket_links = {f"socket:[{inode}]" for inode in inodes}
    deadline = time.monotonic() + SEARCH_SECONDS
    for process in PROC.iterdir() if socket_links else ():
        if time.monotonic() > deadline:
            return None
        if process.name.isdigit() and not socket_links.isdisjoint(_open_file_targets(process)):
            name = (process / "comm").read_text(errors="replace").strip()
            return f"{name if name.isprintable() else ascii(name)} (process {process.name})"
    return None


def _open_file_targets(process: Path) -> Iterator[str]:
    with contextlib.suppress(OSError):  # the process has exited, or belongs to another user
        for file in list((process / "fd").iterdir()):
            with contextlib.suppress(OSError):  # the file was closed meanwhile
                yield str(file.readlink())
