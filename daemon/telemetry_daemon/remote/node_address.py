"""Where a daemon answers: `HOST`, `HOST:PORT`, `[IPV6]:PORT`, `http(s)://HOST[:PORT][/PATH]` or `unix:/PATH`; and lists of these."""

from __future__ import annotations

import re
from dataclasses import dataclass

from telemetry_exporters.text import clean, cut

MOST_NODES = 256
_UNIX_PREFIX = "unix:"
_PORTS = {"http": 80, "https": 443}
_ADDRESS = re.compile(
    r"(?:(?P<scheme>https?)://)?(?:\[(?P<bracketed>[0-9A-Fa-f:.%]+)\]|(?P<plain>[A-Za-z0-9_.-]+))(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<path>/[!-~]*)?\Z"
)
_MOST_SHOWN = 80


class AddressError(ValueError):
    """An address that is none; names it, with the remedy."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a daemon answers, and what it is called on the screen; `unix` is the path of its socket, else empty.

    `certificate` is a file with the only certificate that the daemon may show, whatever host names it has.
    """

    name: str
    host: str = "localhost"
    port: int = 0
    path: str = ""
    is_tls: bool = False
    unix: str = ""
    certificate: str = ""

    @property
    def authority(self) -> str:
        """The host and port as HTTP writes them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}" if self.port else host


def address_of(text: str) -> Address:
    """The address that the text says. Raises AddressError."""
    if text.startswith(_UNIX_PREFIX):
        return Address(text, unix=text.removeprefix(_UNIX_PREFIX))
    if "@" in text:
        raise AddressError("a node's address has no user and password in it; give them with --password-file")
    found = _ADDRESS.match(text)
    if found is None or not 0 < int(found["port"] or 1) <= 65535:
        shown = cut(clean(text), _MOST_SHOWN)
        raise AddressError(f"'{shown}' is no node; write HOST, HOST:PORT, [IPV6]:PORT or http(s)://HOST[:PORT][/PATH]")
    from telemetry_daemon.config.settings import DEFAULT_PORT  # not for the daemon of this node, which has no port

    scheme = found["scheme"]
    port = int(found["port"] or (_PORTS[scheme] if scheme else DEFAULT_PORT))
    host = found["bracketed"] or found["plain"]
    return Address(text, host, port, (found["path"] or "").rstrip("/"), scheme == "https")


def addresses_of(texts: list[str]) -> tuple[Address, ...]:
    """The addresses, each once, at most 256. Raises AddressError."""
    found = tuple(dict.fromkeys(map(address_of, texts)))
    if len(found) > MOST_NODES:
        raise AddressError(f"{len(found)} nodes are too many; {MOST_NODES} can be watched at once")
    return found


def listed(content: str) -> list[str]:
    """The addresses in a file: one on a line, `#` begins a comment."""
    lines = (line.partition("#")[0].strip() for line in content.splitlines())
    return [line for line in lines if line]
