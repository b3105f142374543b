"""Grants access by the web configuration file, which is read again when it changes, and by host name (DNS rebinding)."""

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
from telemetry_daemon.web.clients import Caller, RateLimits, SeldomLogger, ip_address
from telemetry_daemon.web.messages import Channel, Request, Response, status_page
from telemetry_parsers.dataclass import dataclass, field

if TYPE_CHECKING:  # a daemon without TLS does without ssl, which is 4.4 MiB
    import ssl

SECONDS_BETWEEN_LOOKS = 1.0
# OpenSSL keeps up to 20,000 sessions of clients without tickets, and Python cannot set fewer. A new context has none.
MOST_TLS_SESSIONS = 1000
SETTLING_SECONDS = 0.5
_TLS_HANDSHAKE_RECORD = 0x16
_AUTHORITY = re.compile(r"(?:\[(?P<bracketed>[^\[\]]*)\]|(?P<plain>[^\[\]:]*))(?::[0-9]*)?")
# Names of the loopback addresses; the last four are in the /etc/hosts of some distributions.
_LOOPBACK_NAMES = frozenset({"localhost", "localhost.localdomain", "localhost4", "localhost6", "ip6-localhost"})

logger = logging.getLogger(__name__)

# Called with the refusal of a request, or with None to allow it.
Decision = Callable[[Response | None], None]
_OTHER_HOST = (
    b"Misdirected Request: this address does not answer for the host name of the request. "
    b"Ask for localhost or for the address itself, or add the name to web.allowed_hosts in the configuration.\n"
)
_MISDIRECTED = Response(421, (_OTHER_HOST,))
_REFUSALS = {
    LoginResult.WRONG: status_page(401, (("WWW-Authenticate", "Basic"),)),
    LoginResult.TOO_MANY: status_page(429),
}


@dataclass(frozen=True, slots=True)
class Rules:
    """A web configuration file with all files that it names loaded, and a watch over them."""

    file: str
    watch: Watch
    config: WebConfig = field(default_factory=WebConfig)
    context: ssl.SSLContext | None = None
    channel: Callable[[], Channel] = Channel
    client_authorities: bytes = b""

    @property
    def client_demands(self) -> object:
        """Return the requirements for a client's certificate; equal for two files with equal requirements."""
        tls = self.config.tls
        return tls and (tls.client_certificate, tls.client_allowed_sans, self.client_authorities)


def load_rules(file: str) -> Rules:
    """Return the rules of a web configuration file, or plain HTTP for all clients without a file."""
    if not file:
        return Rules("", Watch(()))
    config, watch = _read_under_watch(file)
    if config.tls is None:
        return Rules(file, watch, config)
    from telemetry_daemon.web.access.tls import TlsChannel, client_check, pem_bytes, server_context

    authorities = pem_bytes(config.tls.client_ca) if config.tls.client_ca else b""
    context = server_context(config.tls, file)
    channel = partial(TlsChannel, context, client_check(config.tls.client_allowed_sans))
    return Rules(file, watch, config, context, channel, authorities)


def _read_under_watch(file: str) -> tuple[WebConfig, Watch]:
    """Return the configuration, and a watch over its files that began before they were read."""
    names: tuple[str, ...] = (file,)
    while True:
        watch = Watch(names)
        config = load_web_config(file)
        names = _files_of(file, config.tls)
        if names == watch.files:
            return config, watch


def _files_of(file: str, tls: TlsConfig | None) -> tuple[str, ...]:
    pems = (tls.certificate, tls.private_key, tls.client_ca) if tls else ()
    return tuple(dict.fromkeys((file, *(pem.file for pem in pems if pem is not None and pem.file))))


class AccessControl:
    """Decides by the current rules; while their files are invalid every request is refused, and the log says why."""

    def __init__(self, rules: Rules, limits: RateLimits | None = None) -> None:
        self._rules = rules
        self._trouble = ""
        self._looked_at = time.monotonic()
        self._limits = limits or RateLimits()
        self._auth = BasicAuth()
        self._host_log = SeldomLogger(logger)
        self._host_rule = HostRule()
        self.use(rules)

    @property
    def password_checks(self) -> int:
        """Return how many passwords bcrypt has checked."""
        return self._auth.checks_done

    @property
    def waiting_for_password_check(self) -> int:
        """Return how many callers wait for bcrypt."""
        return self._auth.waiting

    @property
    def client_demands(self) -> object:
        """Return the current requirements for client certificates. Connections under other requirements are not served."""
        return self._rules.client_demands

    @property
    def terms(self) -> object:
        """Return the terms of access. While the terms are equal, an accepted caller would be accepted again."""
        return self._rules.config.users, self.client_demands, self._trouble

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """Return the headers that the operator adds to every answer."""
        return self._rules.config.headers

    def reload_if_changed(self) -> None:
        """Read the files again if they changed; they are checked at most once a second."""
        now = time.monotonic()
        if not self._rules.file or now - self._looked_at < SECONDS_BETWEEN_LOOKS:
            return
        self._looked_at = now
        context = self._rules.context
        has_many_sessions = context is not None and context.session_stats()["number"] > MOST_TLS_SESSIONS
        if self._trouble or self._rules.watch.changed() or has_many_sessions:
            self._reload()

    def use(self, rules: Rules) -> None:
        """Apply these rules from now on."""
        new = rules.config
        self._rules = rules
        self._trouble = ""
        self._auth.set_users(new.users)
        self._limits.use(new.rate_interval_seconds, new.rate_burst)

    def allow_hosts(self, names: Sequence[str], listening_at: Sequence[object]) -> None:
        """Answer for these host names from now on, and always for the addresses themselves."""
        self._host_rule = HostRule(names, listening_at)

    def channel(self, first_byte: int) -> Channel | None:
        """Return the channel of a new connection, or None if it starts without TLS where TLS is required."""
        if self._rules.context is not None and first_byte != _TLS_HANDSHAKE_RECORD:
            return None
        return self._rules.channel()

    def decide(self, request: Request, caller: Caller, then: Decision) -> None:
        """Call `then` with the refusal or None, at once or after the password check."""
        credentials = request.headers.get("authorization", "")
        user = self._auth.recognise(credentials)
        if self._trouble:
            then(status_page(500))
        elif not self._host_rule.answers(request.authority, caller.local_address):
            self._host_log.warning("a request for %r was refused; see web.allowed_hosts", request.authority)
            then(_MISDIRECTED)
        # A logged-in user has a separate limit, apart from others at the same address.
        elif not self._limits.allow((caller.client, user), time.monotonic()):
            then(status_page(429))
        elif self._auth.required and user is None:
            self._auth.check(credentials, caller, lambda result: then(_REFUSALS.get(result)))
        else:
            then(None)

    def forget(self, caller: Caller) -> None:
        """Drop the pending decision for a caller that has disconnected."""
        if self._auth.required:
            self._auth.forget(caller)

    def refuse_waiting(self) -> None:
        """Ask all callers that wait for a password check to try again later."""
        self._auth.refuse_waiting()

    async def close(self) -> None:
        """Stop the password checks."""
        await self._auth.close()

    def _reload(self) -> None:
        try:
            rules = load_rules(self._rules.file)
        except WebConfigError as error:
            if str(error) != self._trouble:
                logger.error("%s; until then every request is answered with 500", error)
            self._trouble = str(error)
            return
        if self._trouble:
            logger.info("%s: the web configuration is good again", rules.file)
        self.use(rules)


class Watch:
    """Files with their state when the watch begins; a missing file is a state, too."""

    def __init__(self, files: Iterable[str]) -> None:
        self._stamps = {file: _stamp(file) for file in files}

    @property
    def files(self) -> tuple[str, ...]:
        """Return the watched files."""
        return tuple(self._stamps)

    def changed(self) -> bool:
        """Return whether a file differs from its first state, and none was written in the last half second."""
        # Half of a file may be valid: an empty web configuration allows all clients.
        now = {file: _stamp(file) for file in self._stamps}
        return now != self._stamps and all(_settled(stamp) for stamp in now.values())


def _stamp(file: str) -> tuple[int, ...]:
    try:
        status = os.stat(file)  # noqa: PTH116  # faster than a Path per look
    except OSError as error:
        return (error.errno or -1,)
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _settled(stamp: tuple[int, ...]) -> bool:
    age_seconds = (time.time_ns() - stamp[-1]) / 1e9
    # A change "in the future" was made before the clock was set back. Waiting for it could take years.
    return not 0 <= age_seconds < SETTLING_SECONDS


class HostRule:
    """Decides which `Host` headers are answered: a foreign web page must not read the site (DNS rebinding)."""

    def __init__(self, allowed: Iterable[str] = (), listening_at: Iterable[object] = ()) -> None:
        self._allowed = tuple(map(_canonical, allowed))
        # Without allowed hosts, only loopback addresses check the header; with some, every address does.
        self._loopback = frozenset(
            address[:2] for address in listening_at if isinstance(address, tuple) and _is_loopback(address[0])
        )

    def answers(self, authority: str, local_address: object) -> bool:
        """Return whether to answer a request for this authority (host and port) on this local address."""
        address = local_address if isinstance(local_address, tuple) else ()
        if not authority or not (self._allowed or address[:2] in self._loopback):
            return True  # every browser sends the host
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
    """Return a host in comparable form: `localhost` for `LocalHost.`, `::1` for `0:0:0:0:0:0:0:1`."""
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
