"""Identifies clients and limits their requests with a token bucket for each of the last 4,096 clients."""

from __future__ import annotations

import ipaddress
import logging
import time
from collections.abc import Hashable

from telemetry_parsers.dataclass import dataclass

MOST_CLIENTS = 4096
# One machine gets an IPv6 network of this size and may use every address in it.
_HOST_BITS_OF_ONE_CLIENT = 64
LOCAL_CLIENT = "local"
_SELDOM_SECONDS = 60.0


@dataclass(frozen=True, slots=True, eq=False)
class Caller:
    """The client of one connection, and the local address of the connection."""

    client: str
    local_address: object


def host_of(peer: object) -> str:
    """Return the name of the peer in log lines, from the address that `getpeername` returns."""
    return str(peer[0]) if isinstance(peer, tuple) else "a local client"


def client_of(peer: object) -> str:
    """Return the client of an address that `getpeername` returns; all users of a Unix socket are one client."""
    if not isinstance(peer, tuple):
        return LOCAL_CLIENT
    address = ip_address(str(peer[0]))
    if isinstance(address, ipaddress.IPv6Address) and not address.is_link_local:
        return str(ipaddress.ip_network((int(address), 128 - _HOST_BITS_OF_ONE_CLIENT), strict=False))
    return str(address)  # all neighbours on a link share fe80::/64


def ip_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Return the address in a text, such as 10.0.0.7 for `::ffff:10.0.0.7`. Raise ValueError if it is invalid."""
    address = ipaddress.ip_address(text)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


class TokenBucket:
    """A bucket of `burst` tokens that gains one per interval. Times are monotonic seconds."""

    def __init__(self, interval_seconds: float, burst: int) -> None:
        self._interval = interval_seconds
        self._burst = float(burst)
        self._spent = 0.0
        self._counted_at = 0.0

    def spent(self, now: float) -> float:
        """Return how many tokens are missing at that time."""
        self._spent = max(0.0, self._spent - (now - self._counted_at) / self._interval)
        self._counted_at = now
        return self._spent

    def allow(self, now: float) -> bool:
        """Take a token if the bucket has one; return whether it had."""
        if self.spent(now) > self._burst - 1.0:
            return False
        self.take(now)
        return True

    def take(self, now: float) -> None:
        """Take a token, or the remaining part of one."""
        self._spent = min(self._burst, self.spent(now) + 1.0)


class Buckets:
    """A bucket for each client; beyond `MOST_CLIENTS` the least recently used bucket is dropped."""

    def __init__(self, interval_seconds: float, burst: int) -> None:
        self._interval = interval_seconds
        self._burst = burst
        self._buckets: dict[Hashable, TokenBucket] = {}

    def of(self, client: Hashable) -> TokenBucket:
        """Return the client's bucket; a new client has a full bucket."""
        bucket = self._buckets.pop(client, None) or TokenBucket(self._interval, self._burst)
        self._buckets[client] = bucket
        if len(self._buckets) > MOST_CLIENTS:
            del self._buckets[next(iter(self._buckets))]
        return bucket


class RateLimits:
    """Limits how often each client may send requests; all listeners that share these limits count together."""

    def __init__(self) -> None:
        self._terms = (0.0, 0)
        self._buckets: Buckets | None = None

    def use(self, interval_seconds: float, burst: int) -> None:
        """Apply these limits; an interval of 0 means none. Counts are kept if the limits do not change."""
        if (interval_seconds, burst) != self._terms:
            self._terms = interval_seconds, burst
            self._buckets = Buckets(interval_seconds, burst) if interval_seconds else None

    def allow(self, client: Hashable, now: float) -> bool:
        """Count a request, and return whether it is within the client's limit."""
        return self._buckets is None or self._buckets.of(client).allow(now)


class SeldomLogger:
    """Logs at most one message a minute, with the number of omitted messages."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._quiet_until = 0.0
        self._left_out = 0

    def warning(self, message: str, *arguments: object) -> None:
        """Log a warning, unless one was logged within the last minute."""
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
