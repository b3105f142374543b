"""Decides which requests are served."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from telemetry_daemon.web.access.auth import BasicAuth, LoginResult
from telemetry_daemon.web.access.toolkit import TlsConfig, WebConfig, load_web_config
from telemetry_daemon.web.addresses import WebConfigError
from telemetry_daemon.web.clients import Caller, RateLimitedLogger, RateLimits, ip_address
from telemetry_daemon.web.messages import Channel, Request, Response, status_page
from telemetry_parsers.dataclass import dataclass, field

if TYPE_CHECKING:  # saves 4.4 MiB in a daemon without TLS
    import ssl

CHECK_INTERVAL_SECONDS = 1.0
# With more sessions, the context is replaced, because OpenSSL's limit of 20,000 cached sessions cannot be changed.
MAX_TLS_SESSIONS = 1000
SETTLING_SECONDS = 0.5
_TLS_HANDSHAKE_RECORD = 0x16
_AUTHORITY = re.compile(r"(?:\[(?P<bracketed>[^\[\]]*)\]|(?P<plain>[^\[\]:]*))(?::[0-9]*)?")
# Common distributions use these names for loopback addresses in /etc/hosts.
_LOOPBACK_NAMES = frozenset({"localhost", "localhost.localdomain", "localhost4", "localhost6", "ip6-localhost"})

logger = logging.getLogger(__name__)

# Called with a refusal, or with None if the request is allowed.
DecisionCallback = Callable[[Response | None], None]
_MISDIRECTED_TEXT = (
    b"Misdirected Request: this address does not answer for the host name of the request. "
    b"Ask for localhost or for the address itself, or add the name to web.allowed_hosts in the configuration.\n"
)
_MISDIRECTED = Response(421, (_MISDIRECTED_TEXT,))
_REFUSALS = {
    LoginResult.WRONG: status_page(401, (("WWW-Authenticate", "Basic"),)),
    LoginResult.TOO_MANY: status_page(429),
}


@dataclass(frozen=True, slots=True)
class LoadedWebConfig:
    """A loaded web configuration, with a watch on its files."""

    file: str
    watch: FileWatch
    config: WebConfig = field(default_factory=WebConfig)
    context: ssl.SSLContext | None = None
    create_channel: Callable[[], Channel] = Channel
    client_authorities: bytes = b""

    @property
    def client_requirements(self) -> object:
        """Return the requirements for client certificates. The value is only compared with an earlier one."""
        tls = self.config.tls
        return tls and (tls.client_certificate, tls.client_allowed_sans, self.client_authorities)


def load_config(file: str) -> LoadedWebConfig:
    """Load a web configuration file. An empty name means plain HTTP for all clients."""
    if not file:
        return LoadedWebConfig("", FileWatch(()))
    config, watch = _read_and_watch(file)
    if config.tls is None:
        return LoadedWebConfig(file, watch, config)
    from telemetry_daemon.web.access.tls import TlsChannel, make_client_check, pem_bytes, server_context

    authorities = pem_bytes(config.tls.client_ca) if config.tls.client_ca else b""
    context = server_context(config.tls, file)
    create_channel = partial(TlsChannel, context, make_client_check(config.tls.client_allowed_sans))
    return LoadedWebConfig(file, watch, config, context, create_channel, authorities)


def _read_and_watch(file: str) -> tuple[WebConfig, FileWatch]:
    files: tuple[str, ...] = (file,)
    while True:
        watch = FileWatch(files)  # before the files are read, so that no change is missed
        config = load_web_config(file)
        files = _files_to_watch(file, config.tls)
        if files == watch.files:
            return config, watch


def _files_to_watch(file: str, tls: TlsConfig | None) -> tuple[str, ...]:
    pems = (tls.certificate, tls.private_key, tls.client_ca) if tls else ()
    return tuple(dict.fromkeys((file, *(pem.file for pem in pems if pem is not None and pem.file))))


class AccessControl:
    """Allows or refuses requests. While the configuration is invalid, all requests are refused."""

    def __init__(self, loaded: LoadedWebConfig, limits: RateLimits | None = None) -> None:
        self._loaded = loaded
        self._error_text = ""
        self._checked_at = time.monotonic()
        self._limits = limits or RateLimits()
        self._auth = BasicAuth()
        self._host_log = RateLimitedLogger(logger)
        self._host_rule = HostRule()
        self.replace_config(loaded)

    @property
    def password_checks(self) -> int:
        """Return the number of passwords that bcrypt has checked."""
        return self._auth.checks_done

    @property
    def waiting_for_password_check(self) -> int:
        """Return the number of callers that wait for bcrypt."""
        return self._auth.waiting_callers

    @property
    def client_requirements(self) -> object:
        """Return the current requirements for client certificates."""
        return self._loaded.client_requirements

    @property
    def access_state(self) -> object:
        """Return a value that changes when callers must be checked again."""
        return self._loaded.config.users, self.client_requirements, self._error_text

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """Return the configured headers, which are added to every response."""
        return self._loaded.config.headers

    def reload_if_changed(self) -> None:
        """Reload changed files. Call this for each request: the files are checked at most once a second."""
        now = time.monotonic()
        if not self._loaded.file or now - self._checked_at < CHECK_INTERVAL_SECONDS:
            return
        self._checked_at = now
        context = self._loaded.context
        has_many_sessions = context is not None and context.session_stats()["number"] > MAX_TLS_SESSIONS
        if self._error_text or self._loaded.watch.has_changed() or has_many_sessions:
            self._reload()

    def replace_config(self, loaded: LoadedWebConfig) -> None:
        """Replace the web configuration."""
        config = loaded.config
        self._loaded = loaded
        self._error_text = ""
        self._auth.set_users(config.users)
        self._limits.configure(config.rate_interval_seconds, config.rate_burst)

    def allow_hosts(self, names: Sequence[str], listening_addresses: Sequence[object]) -> None:
        """Accept requests for these host names and the server's addresses."""
        self._host_rule = HostRule(names, listening_addresses)

    def create_channel(self, first_byte: int) -> Channel | None:
        """Return a channel for a new connection, or None if the client does not use TLS, but must."""
        if self._loaded.context is not None and first_byte != _TLS_HANDSHAKE_RECORD:
            return None
        return self._loaded.create_channel()

    def decide(self, request: Request, caller: Caller, callback: DecisionCallback) -> None:
        """Decide whether to allow a request. Call `callback` with the refusal, or with None if the request is allowed."""
        credentials = request.headers.get("authorization", "")
        user = self._auth.cached_user(credentials)
        if self._error_text:
            callback(status_page(500))
        elif not self._host_rule.is_allowed(request.authority, caller.local_address):
            self._host_log.warning(
                "a request for the host name %r was refused; see web.allowed_hosts", request.authority
            )
            callback(_MISDIRECTED)
        # Users at the same address have separate limits.
        elif not self._limits.allow((caller.client, user), time.monotonic()):
            callback(status_page(429))
        elif self._auth.is_required and user is None:
            self._auth.check(credentials, caller, lambda result: callback(_REFUSALS.get(result)))
        else:
            callback(None)

    def forget(self, caller: Caller) -> None:
        """Drop the pending decision for a disconnected caller."""
        if self._auth.is_required:
            self._auth.forget(caller)

    def refuse_waiting(self) -> None:
        """Refuse all callers that wait for a password check, with status 429."""
        self._auth.refuse_waiting()

    async def close(self) -> None:
        """Stop the password checks."""
        await self._auth.close()

    def _reload(self) -> None:
        try:
            loaded = load_config(self._loaded.file)
        except WebConfigError as error:
            if str(error) != self._error_text:
                logger.error("%s; every request gets status 500 until this is fixed", error)
            self._error_text = str(error)
            return
        if self._error_text:
            logger.info("%s: the web configuration is valid again", loaded.file)
        self.replace_config(loaded)


class FileWatch:
    """Detects changes to files."""

    def __init__(self, files: Iterable[str]) -> None:
        self._stamps = {file: _stamp(file) for file in files}

    @property
    def files(self) -> tuple[str, ...]:
        """Return the watched files."""
        return tuple(self._stamps)

    def has_changed(self) -> bool:
        """Return whether a file has changed. While a file is newer than `SETTLING_SECONDS`, return False."""
        # A new file may be half-written: half a file may be valid, and an empty file allows all clients.
        stamps = {file: _stamp(file) for file in self._stamps}
        return stamps != self._stamps and all(_is_settled(stamp) for stamp in stamps.values())


def _stamp(file: str) -> tuple[int, ...]:
    try:
        status = os.stat(file)  # noqa: PTH116  # faster than pathlib
    except OSError as error:
        return (error.errno or -1,)
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _is_settled(stamp: tuple[int, ...]) -> bool:
    age_seconds = (time.time_ns() - stamp[-1]) / 1e9
    # If the clock was set back, the age is negative, and waiting could take years.
    return not 0 <= age_seconds < SETTLING_SECONDS


class HostRule:
    """Checks the `Host` header, to prevent DNS rebinding."""

    def __init__(self, allowed: Iterable[str] = (), listening_addresses: Iterable[object] = ()) -> None:
        self._allowed = tuple(map(_canonical_host, allowed))
        # Without configured hosts, the header is checked only at these addresses.
        self._loopback_addresses = frozenset(
            address[:2] for address in listening_addresses if isinstance(address, tuple) and _is_loopback(address[0])
        )

    def is_allowed(self, authority: str, local_address: object) -> bool:
        """Return whether a request for this host and port is allowed."""
        address = local_address if isinstance(local_address, tuple) else ()
        if not authority or not (self._allowed or address[:2] in self._loopback_addresses):
            return True  # a request without the header is not from a browser
        match = _AUTHORITY.fullmatch(authority)
        if match is None:
            return False
        host = _canonical_host(match["bracketed"] or match["plain"] or "")
        return _is_loopback(host) or host in map(_canonical_host, address[:1]) or self._is_configured(host)

    def _is_configured(self, host: str) -> bool:
        return any(
            host == allowed or (allowed.startswith("*") and host.endswith(allowed[1:])) for allowed in self._allowed
        )


def _canonical_host(host: str) -> str:
    """Return a host in comparable form, such as `localhost` for `LocalHost.`."""
    try:
        return str(ip_address(host.partition("%")[0]))
    except ValueError:  # a host name instead of an address
        return host.lower().removesuffix(".")


def _is_loopback(host: str) -> bool:
    if host in _LOOPBACK_NAMES or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:  # a host name instead of an address
        return False
