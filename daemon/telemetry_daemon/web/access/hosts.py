"""Which host names a request may be for, so that a page in a browser cannot read us through a name of its own (DNS rebinding)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from telemetry_daemon.web.clients import ip_address

_AUTHORITY = re.compile(r"(?:\[(?P<bracketed>[^\[\]]*)\]|(?P<plain>[^\[\]:]*))(?::[0-9]*)?")
# Names that resolve to the loopback addresses everywhere, the last four by the /etc/hosts of one distribution or another.
_LOOPBACK_NAMES = frozenset({"localhost", "localhost.localdomain", "localhost4", "localhost6", "ip6-localhost"})


class HostRule:
    """What the `Host` header may say: anything, but for the addresses that are guarded.

    These are the listeners on loopback addresses, which other machines cannot reach, and all once hosts are allowed.
    """

    def __init__(self, allowed: Iterable[str] = (), places: Iterable[object] = ()) -> None:
        self._allowed = tuple(map(_canonical, allowed))
        self._guarded = frozenset(place[:2] for place in places if isinstance(place, tuple) and _is_loopback(place[0]))

    def answers(self, authority: str, came_to: object) -> bool:
        """Whether to answer a request for this authority (host and port) that came to this local address."""
        place = came_to if isinstance(came_to, tuple) else ()
        if not authority or not (self._allowed or place[:2] in self._guarded):
            return True  # no browser leaves the host out
        found = _AUTHORITY.fullmatch(authority)
        if found is None:
            return False
        host = _canonical(found["bracketed"] or found["plain"] or "")
        return _is_loopback(host) or host in map(_canonical, place[:1]) or self._allows(host)

    def _allows(self, host: str) -> bool:
        return any(
            host == allowed or (allowed.startswith("*") and host.endswith(allowed[1:])) for allowed in self._allowed
        )


def _canonical(host: str) -> str:
    """A host as it compares: lower case, no final dot, an address in its one usual form."""
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
