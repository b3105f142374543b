"""Who counts as one client, and how often each may do something: a token bucket for each of the last 4,096; log lines once a minute."""

from __future__ import annotations

import ipaddress
import logging
import time
from collections.abc import Hashable
from dataclasses import dataclass

MOST_CLIENTS = 4096
# One machine gets an IPv6 network of this size and may use every address in it.
_HOST_BITS_OF_ONE_CLIENT = 64
LOCAL_CLIENT = "local"
_SELDOM_SECONDS = 60.0


@dataclass(frozen=True, slots=True, eq=False)
class Caller:
    """The client at the other end of one connection, and the address of ours that it connected to."""

    client: str
    local_address: object


def host_of(peer: object) -> str:
    """How a log line names the other end, by its address as `getpeername` gives it."""
    return str(peer[0]) if isinstance(peer, tuple) else "a local client"


def client_of(peer: object) -> str:
    """The client that owns an address, as `getpeername` gives it; everybody at a Unix socket is one client."""
    if not isinstance(peer, tuple):
        return LOCAL_CLIENT
    address = ip_address(str(peer[0]))
    if isinstance(address, ipaddress.IPv6Address) and not address.is_link_local:
        return str(ipaddress.ip_network((int(address), 128 - _HOST_BITS_OF_ONE_CLIENT), strict=False))
    return str(address)  # all neighbours on a link share fe80::/64


def ip_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The address in a text, such as 10.0.0.7 for `::ffff:10.0.0.7`; a ValueError if it is none."""
    address = ipaddress.ip_address(text)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


class TokenBucket:
    """Holds `burst` tokens and gets one back in each interval. Moments are monotonic seconds."""

    def __init__(self, interval_seconds: float, burst: int) -> None:
        self._interval = interval_seconds
        self._burst = float(burst)
        self._spent = 0.0
        self._counted_at = 0.0

    def spent(self, now: float) -> float:
        """How many tokens are missing at that moment."""
        self._spent = max(0.0, self._spent - (now - self._counted_at) / self._interval)
        self._counted_at = now
        return self._spent

    def allow(self, now: float) -> bool:
        """Take a token if there is one."""
        if self.spent(now) > self._burst - 1.0:
            return False
        self.take(now)
        return True

    def take(self, now: float) -> None:
        """Take a token, or the rest of one."""
        self._spent = min(self._burst, self.spent(now) + 1.0)


class Buckets:
    """A bucket for each client; beyond `MOST_CLIENTS` the least recently used one is forgotten."""

    def __init__(self, interval_seconds: float, burst: int) -> None:
        self._interval = interval_seconds
        self._burst = burst
        self._buckets: dict[Hashable, TokenBucket] = {}

    def of(self, client: Hashable) -> TokenBucket:
        """The client's bucket; a new client has a full one."""
        bucket = self._buckets.pop(client, None) or TokenBucket(self._interval, self._burst)
        self._buckets[client] = bucket
        if len(self._buckets) > MOST_CLIENTS:
            del self._buckets[next(iter(self._buckets))]
        return bucket


class RateLimits:
    """How often each client may ask; all listeners that share these limits count together."""

    def __init__(self) -> None:
        self._terms = (0.0, 0)
        self._buckets: Buckets | None = None

    def use(self, interval_seconds: float, burst: int) -> None:
        """Let these limits be in force; an interval of 0 means none. What was counted stays while they do not change."""
        if (interval_seconds, burst) != self._terms:
            self._terms = interval_seconds, burst
            self._buckets = Buckets(interval_seconds, burst) if interval_seconds else None

    def allow(self, client: Hashable, now: float) -> bool:
        """Count a request, and return whether it is within the client's limit."""
        return self._buckets is None or self._buckets.of(client).allow(now)


class SeldomLogger:
    """Passes on at most one message a minute, and says how many it left out since."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._quiet_until = 0.0
        self._left_out = 0

    def warning(self, message: str, *arguments: object) -> None:
        """Log a warning, unless one was logged a moment ago."""
        now = time.monotonic()
        if now < self._quiet_until:
            self._left_out += 1
            return
        self._quiet_until = now + _SELDOM_SECONDS
        if self._left_out:
            message += " (and %d more since the last such line)"
            arguments = (*arguments, self._left_out)
        self._left_out = 0
        self._logger.warning(message, *arguments)
