"""The host names that are answered: a foreign web page must not read us under its own name (DNS rebinding)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from telemetry_daemon.web.clients import ip_address

_AUTHORITY = re.compile(r"(?:\[(?P<bracketed>[^\[\]]*)\]|(?P<plain>[^\[\]:]*))(?::[0-9]*)?")
# Names of the loopback addresses; the last four are in the /etc/hosts of some distributions.
_LOOPBACK_NAMES = frozenset({"localhost", "localhost.localdomain", "localhost4", "localhost6", "ip6-localhost"})


class HostRule:
    """What the `Host` header may say.

    Without allowed hosts only the loopback addresses among `listening_at` are choosy; with some, every address is.
    """

    def __init__(self, allowed: Iterable[str] = (), listening_at: Iterable[object] = ()) -> None:
        self._allowed = tuple(map(_canonical, allowed))
        self._loopback = frozenset(
            address[:2] for address in listening_at if isinstance(address, tuple) and _is_loopback(address[0])
        )

    def answers(self, authority: str, local_address: object) -> bool:
        """Whether to answer a request for this authority (host and port) that came to this local address."""
        address = local_address if isinstance(local_address, tuple) else ()
        if not authority or not (self._allowed or address[:2] in self._loopback):
            return True  # no browser leaves the host out
        parts = _AUTHORITY.fullmatch(authority)
        if parts is None:
            return False
        host = _canonical(parts["bracketed"] or parts["plain"] or "")
        return _is_loopback(host) or host in map(_canonical, address[:1]) or self._allows(host)

    def _allows(self, host: str) -> bool:
        return any(
            host == allowed or (allowed.startswith("*") and host.endswith(allowed[1:])) for allowed in self._allowed
        )


def _canonical(host: str) -> str:
    """A host for comparing: `localhost` for `LocalHost.`, `::1` for `0:0:0:0:0:0:0:1`."""
    try:
        return str(ip_address(host.partition("%")[0]))
    except ValueError:  # a name
        return host.lower().removesuffix(".")


def _is_loopback(host: str) -> bool:
    if host in _LOOPBACK_NAMES or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:  # a name
        return False
