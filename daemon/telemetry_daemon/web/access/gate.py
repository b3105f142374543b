"""Who is let in and how: the web configuration in force, and its files read again when they change."""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass

from telemetry_daemon.web.access.auth import BasicAuth, Verdict
from telemetry_daemon.web.access.hosts import HostRule
from telemetry_daemon.web.access.toolkit import Pem, TlsConfig, WebConfig, load_web_config
from telemetry_daemon.web.access.watch import Watch
from telemetry_daemon.web.clients import Buckets, Caller
from telemetry_daemon.web.errors import WebConfigError
from telemetry_daemon.web.messages import Request, Response
from telemetry_daemon.web.server.channel import Channel, PlainChannel, TlsChannel
from telemetry_daemon.web.server.conversation import plain
from telemetry_daemon.web.server.seldom_logger import SeldomLogger

SECONDS_BETWEEN_LOOKS = 1.0
# OpenSSL keeps the sessions of clients that know no tickets, up to 20,000 of them, and Python cannot say otherwise;
# a new context starts with none.
MOST_TLS_SESSIONS = 1000

logger = logging.getLogger(__name__)

# What a request is answered with instead of being put to the site; None lets it through.
Admission = Callable[[Response | None], None]


@dataclass(frozen=True, slots=True)
class Rules:
    """A web configuration with everything loaded that it names."""

    config: WebConfig
    context: ssl.SSLContext | None
    check_client: Callable[[ssl.SSLObject], str]
    client_authorities: bytes
    files: tuple[str, ...]

    @property
    def entrance(self) -> object:
        """What a connection had to fulfil to be let in; connections under another entrance are not served."""
        tls = self.config.tls
        return tls and (tls.client_certificate, tls.client_allowed_sans, self.client_authorities)


_OPEN_TO_ALL = Rules(WebConfig(), None, lambda _: "", b"", ())


def load_rules(file: str) -> Rules:
    """The rules of a web configuration file, plain HTTP for everybody if none is named."""
    if not file:
        return _OPEN_TO_ALL
    config = load_web_config(file)
    if config.tls is None:
        return Rules(config, None, lambda _: "", b"", (file,))
    from telemetry_daemon.web.access.tls import client_check, pem_bytes, server_context

    authorities = pem_bytes(config.tls.client_ca) if config.tls.client_ca else b""
    check = client_check(config.tls.client_allowed_sans)
    return Rules(config, server_context(config.tls, file), check, authorities, (file, *_files_named(config.tls)))


def _files_named(tls: TlsConfig) -> tuple[str, ...]:
    pems: tuple[Pem | None, ...] = (tls.certificate, tls.private_key, tls.client_ca)
    return tuple(pem.file for pem in pems if pem is not None and pem.file)


@dataclass(frozen=True, slots=True)
class Edition:
    """One reading of a web configuration, and the watch that tells when it is out of date."""

    file: str
    rules: Rules
    watch: Watch


def read_edition(file: str) -> Edition:
    """Read the configuration; a WebConfigError says what is wrong with it."""
    watch = Watch((file,) if file else ())
    rules = load_rules(file)
    if rules.files != watch.files:
        # Looked at first and read afterwards, so that no change in between goes unnoticed.
        watch = Watch(rules.files)
        rules = load_rules(file)
    return Edition(file, rules, watch)


class Gate:
    """The rules in force; while their files are bad nobody is served, and the log says why."""

    def __init__(self, edition: Edition) -> None:
        self._edition = edition
        self._trouble = ""
        self._looked_at = time.monotonic()
        self._limits: Buckets | None = None
        self._auth = BasicAuth()
        self._host_log = SeldomLogger(logger)
        self.host_rule = HostRule()
        self.most_tls_sessions = MOST_TLS_SESSIONS
        self.use(edition)

    @property
    def bcrypt_checks(self) -> int:
        """How often bcrypt has run."""
        return self._auth.checks_done

    @property
    def encrypted(self) -> bool:
        """Whether new connections speak TLS."""
        return self._edition.rules.context is not None

    @property
    def entrance(self) -> object:
        """What a connection has to fulfil at present."""
        return self._edition.rules.entrance

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """The headers that the operator wants on every answer."""
        return self._edition.rules.config.headers

    def look(self) -> None:
        """Read the files again if they changed, at most once a second."""
        now = time.monotonic()
        if not self._edition.file or now - self._looked_at < SECONDS_BETWEEN_LOOKS:
            return
        self._looked_at = now
        if self._trouble or self._edition.watch.changed() or self._has_many_sessions():
            self._read_again()

    def use(self, edition: Edition) -> None:
        """Let this reading be in force from now on."""
        old, new = self._edition.rules.config, edition.rules.config
        self._edition = edition
        self._trouble = ""
        self._auth.set_users(new.users)
        limits_changed = (old.rate_interval_seconds, old.rate_burst) != (new.rate_interval_seconds, new.rate_burst)
        if new.rate_interval_seconds == 0.0:
            self._limits = None
        elif limits_changed or self._limits is None:
            self._limits = Buckets(new.rate_interval_seconds, new.rate_burst)

    def channel(self) -> Channel:
        """What a new connection speaks through."""
        rules = self._edition.rules
        return PlainChannel() if rules.context is None else TlsChannel(rules.context, rules.check_client)

    def admit(self, request: Request, caller: Caller, then: Admission) -> None:
        """Call `then` with the refusal or None, at once or when the password is checked."""
        credentials = request.headers.get("authorization", "")
        user = self._auth.recognise(credentials)
        if self._trouble:
            then(plain(500))
        elif not self.host_rule.answers(request.authority, caller.came_to):
            self._host_log.warning("a request for %r was refused; see web.allowed_hosts", request.authority)
            then(_MISDIRECTED)
        elif not self._is_within_limit(caller.client, user):
            then(plain(429))
        elif self._auth.required and user is None:
            self._auth.check(credentials, caller, lambda verdict: then(_REFUSALS.get(verdict)))
        else:
            then(None)

    def leave(self, caller: Caller) -> None:
        """Forget a caller who has hung up."""
        if self._auth.required:
            self._auth.leave(caller)

    def _is_within_limit(self, client: str, user: bytes | None) -> bool:
        """Charge the client; who has logged in has a share apart from the strangers at the same address."""
        return self._limits is None or self._limits.of((client, user)).allow(time.monotonic())

    def refuse_waiting(self) -> None:
        """Tell all who wait for the check of their password to come again."""
        self._auth.refuse_waiting()

    async def close(self) -> None:
        """End the password checks."""
        await self._auth.close()

    def _read_again(self) -> None:
        try:
            edition = read_edition(self._edition.file)
        except WebConfigError as error:
            if str(error) != self._trouble:
                logger.error("%s; until then every request is answered with 500", error)
            self._trouble = str(error)
            return
        if self._trouble:
            logger.info("%s: the web configuration is good again", edition.file)
        self.use(edition)

    def _has_many_sessions(self) -> bool:
        context = self._edition.rules.context
        return context is not None and context.session_stats()["number"] > self.most_tls_sessions


_OTHER_HOST = (
    b"Misdirected Request: this address does not answer for the host name of the request. "
    b"Ask for localhost or for the address itself, or add the name to web.allowed_hosts in the configuration.\n"
)
_MISDIRECTED = Response(421, (_OTHER_HOST,))
_REFUSALS = {
    Verdict.UNAUTHORIZED: plain(401, (("WWW-Authenticate", "Basic"),)),
    Verdict.TOO_MANY: plain(429),
}
