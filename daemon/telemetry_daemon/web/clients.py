"""Identifies clients, and limits their requests with token buckets."""

from __future__ import annotations

import ipaddress
import logging
import time
from collections.abc import Hashable

from telemetry_parsers.dataclass import dataclass

MAX_CLIENTS = 4096
# A client may use all addresses of its IPv6 network, so the last 64 bits are ignored.
_HOST_BITS_OF_ONE_CLIENT = 64
LOCAL_CLIENT = "local"
_LOG_INTERVAL_SECONDS = 60.0


@dataclass(frozen=True, slots=True, eq=False)
class Caller:
    """The client of a connection, and the connection's local address."""

    client: str
    local_address: object


def peer_name(peer: object) -> str:
    """Return the peer's IP address for log lines. `peer` is the result of `getpeername`."""
    return str(peer[0]) if isinstance(peer, tuple) else "a local client"


def client_key(peer: object) -> str:
    """Return the address or network whose requests are limited together. `peer` is the result of `getpeername`."""
    if not isinstance(peer, tuple):
        return LOCAL_CLIENT
    address = ip_address(str(peer[0]))
    if isinstance(address, ipaddress.IPv6Address) and not address.is_link_local:
        return str(ipaddress.ip_network((int(address), 128 - _HOST_BITS_OF_ONE_CLIENT), strict=False))
    return str(address)  # the network fe80::/64 is the same for all machines on a link


def ip_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Parse an IP address, and unwrap an IPv4-mapped address. Raise ValueError if the text is no IP address."""
    address = ipaddress.ip_address(text)
    ipv4 = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return ipv4 or address


class TokenBucket:
    """A bucket of `burst` tokens that regains one token per interval."""

    def __init__(self, interval_seconds: float, burst: int) -> None:
        self._interval = interval_seconds
        self._burst = float(burst)
        self._missing_tokens = 0.0
        self._counted_at = 0.0

    def missing_tokens(self, now: float) -> float:
        """Return how many tokens the bucket needs to be full. The number can be fractional, as tokens return gradually."""
        self._missing_tokens = max(0.0, self._missing_tokens - (now - self._counted_at) / self._interval)
        self._counted_at = now
        return self._missing_tokens

    def allow(self, now: float) -> bool:
        """Take a token, and return whether the bucket had one."""
        if self.missing_tokens(now) > self._burst - 1.0:
            return False
        self.take(now)
        return True

    def take(self, now: float) -> None:
        """Take one token or, if less than one is left, the rest."""
        self._missing_tokens = min(self._burst, self.missing_tokens(now) + 1.0)


class ClientBuckets:
    """The token buckets of the clients that were seen most recently."""

    def __init__(self, interval_seconds: float, burst: int) -> None:
        self._interval = interval_seconds
        self._burst = burst
        self._buckets: dict[Hashable, TokenBucket] = {}

    def for_client(self, client: Hashable) -> TokenBucket:
        """Return the client's bucket, which is full for a new client."""
        bucket = self._buckets.pop(client, None) or TokenBucket(self._interval, self._burst)
        self._buckets[client] = bucket
        if len(self._buckets) > MAX_CLIENTS:
            del self._buckets[next(iter(self._buckets))]
        return bucket


class RateLimits:
    """Limits each client's request rate. Servers that share the instance share the limits."""

    def __init__(self) -> None:
        self._settings = (0.0, 0)
        self._buckets: ClientBuckets | None = None

    def configure(self, interval_seconds: float, burst: int) -> None:
        """Set the limits. An interval of 0 means no limit."""
        if (interval_seconds, burst) != self._settings:
            self._settings = interval_seconds, burst
            self._buckets = ClientBuckets(interval_seconds, burst) if interval_seconds else None

    def allow(self, client: Hashable, now: float) -> bool:
        """Count a request, and return whether it is within the limit."""
        return self._buckets is None or self._buckets.for_client(client).allow(now)


class RateLimitedLogger:
    """Logs at most one warning per minute, with the number of omitted warnings."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._silent_until = 0.0
        self._omitted_count = 0

    def warning(self, message: str, *arguments: object) -> None:
        """Log a warning, or count it as omitted."""
        now = time.monotonic()
        if now < self._silent_until:
            self._omitted_count += 1
            return
        self._silent_until = now + _LOG_INTERVAL_SECONDS
        if self._omitted_count:
            message += " (and %d more since the last warning)"
            arguments = (*arguments, self._omitted_count)
        self._omitted_count = 0
        self._logger.warning(message, *arguments)
