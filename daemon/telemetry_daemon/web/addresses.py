"""Parses listen addresses such as `127.0.0.1:9100`, `:9100`, `[::1]:9100` or `unix:/path`."""

from __future__ import annotations

import os
import re
from pathlib import Path

from telemetry_parsers.dataclass import dataclass

UNIX_PREFIX = "unix:"
MAX_UNIX_PATH_BYTES = 107  # sun_path has 108 bytes, including the final zero byte
_EXAMPLES = "write HOST:PORT, :PORT, [IPV6]:PORT or unix:/PATH"
_HOST_AND_PORT = re.compile(r"(?:\[(?P<bracketed>[^\[\]]*)\]|(?P<plain>[^\[\]:]*)):(?P<port>[0-9]{1,5})")


class WebError(Exception):
    """The settings of the web server are unusable."""


class ListenError(WebError):
    """The operating system refuses to listen on an address, but may allow it later."""


class WebConfigError(WebError):
    """The web configuration file, or a file that it refers to, is unusable."""


@dataclass(frozen=True, slots=True)
class TcpAddress:
    """A host and a port. An empty host means all interfaces."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class UnixAddress:
    """The path of a Unix socket."""

    path: str


def local_socket_in(runtime_directory: str) -> Path:
    """Return the path of the Unix socket through which local users reach the site."""
    # The name `web.sock` may be in use, because it was an example for `web.listen_address`.
    return Path(runtime_directory) / "local.sock"


def parse_address(text: str) -> TcpAddress | UnixAddress:
    """Parse a listen address. Raise WebError if it is invalid."""
    if text.startswith("vsock:"):
        raise WebError(f"{text}: vsock addresses are not supported; {_EXAMPLES}")
    if text.startswith(UNIX_PREFIX):
        return _parse_unix_address(text)
    match = _HOST_AND_PORT.fullmatch(text)
    if match is None:
        raise WebError(f"{text!r} is not a listen address; {_EXAMPLES}")
    if int(match["port"]) > 65535:
        raise WebError(f"{text}: the port must be at most 65535")
    if match["bracketed"] == "":
        raise WebError(f"{text}: the brackets are empty; {_EXAMPLES}")
    return TcpAddress(match["bracketed"] or match["plain"] or "", int(match["port"]))


def _parse_unix_address(text: str) -> UnixAddress:
    path = text.removeprefix(UNIX_PREFIX)
    if path.startswith("//"):
        path = path.removeprefix("//")
    if not path.startswith("/") or "\0" in path:
        raise WebError(f"{text!r}: a Unix socket needs an absolute path; write unix:/PATH")
    if len(os.fsencode(path)) > MAX_UNIX_PATH_BYTES:
        raise WebError(f"{text}: the path is longer than {MAX_UNIX_PATH_BYTES} bytes; choose a shorter one")
    return UnixAddress(path)
