"""Basic authentication with bcrypt: one check at a time in a thread of its own, clients in turn, answers remembered."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from queue import SimpleQueue

from telemetry_daemon.web.clients import Buckets, Caller

LONGEST_QUEUE = 64  # 32 guessers and a scraper at one address all get their turn: at cost 12, within 10 seconds
# More failures than these make no client worse, lest one that shares its address with guessers stay behind all others.
FAILURES_HELD_AGAINST = 16
SECONDS_TO_FORGIVE_ONE = 15.0
MOST_REMEMBERED = 100
CLOSING_LOOKS = 200  # two seconds in all
SECONDS_BETWEEN_CLOSING_LOOKS = 0.01
BCRYPT_PASSWORD_BYTES = 72  # bcrypt reads no more; the library raises where others cut
# Any salt and digest do: no password is known for them, and the result is thrown away.
_NOBODY = "$2b${cost:02}$" + "." * 21 + "u" + "." * 31


class Verdict(Enum):
    """What to do with a request."""

    WELCOME = "the password is right"
    UNAUTHORIZED = "no credentials, or wrong ones"
    TOO_MANY = "too many checks are waiting"


Then = Callable[[Verdict], None]


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A password to check; `key` stands for user, hash and password together."""

    key: bytes
    user: bytes
    hashed: bytes
    password: bytes


@dataclass(slots=True)
class _Check:
    """An attempt that a client waits for."""

    attempt: _Attempt
    client: str
    then: dict[Caller, Then]


class BasicAuth:
    """Checks `Authorization` headers; its methods belong to one event loop's thread."""

    def __init__(self, users: Sequence[tuple[str, str]] = ()) -> None:
        self._users: Mapping[bytes, bytes] = {}
        self._nobody = b""
        self._secret = os.urandom(32)
        self._remembered = _Memory()
        self._waiting: dict[bytes, _Check] = {}  # in order of arrival
        self._running: _Check | None = None
        self._failures = Buckets(SECONDS_TO_FORGIVE_ONE, FAILURES_HELD_AGAINST)
        self._attempts: SimpleQueue[_Attempt | None] = SimpleQueue()
        self._worker: threading.Thread | None = None
        self.checks_done = 0
        self.set_users(users)

    def set_users(self, users: Sequence[tuple[str, str]]) -> None:
        """Let these users in from now on, and nobody else."""
        self._users = {name.encode(): hashed.encode() for name, hashed in users}
        # An unknown user costs as much as the dearest known one, so that time tells nothing.
        cost = max((int(hashed[4:6]) for _, hashed in users), default=10)
        self._nobody = _NOBODY.format(cost=cost).encode()

    @property
    def required(self) -> bool:
        """Whether anybody has to say who they are."""
        return bool(self._users)

    def recognise(self, header: str) -> bytes | None:
        """The user whose right password this is, if it was checked before."""
        credentials = parse_basic(header) if self.required else None
        if credentials is None or self._remembered.get(self._attempt(*credentials).key) is not Verdict.WELCOME:
            return None
        return credentials[0]

    def check(self, header: str, caller: Caller, then: Then) -> None:
        """Call `then` with the verdict, at once if it is known, else when bcrypt has spoken."""
        credentials = parse_basic(header)
        if credentials is None:
            then(Verdict.UNAUTHORIZED)
            return
        attempt = self._attempt(*credentials)
        known = self._remembered.get(attempt.key)
        if known is not None:
            then(known)
        else:
            self._wait(attempt, caller, then)

    def leave(self, caller: Caller) -> None:
        """Tell a caller nothing any more; what was asked for is still checked, since who is in earnest asks again."""
        for check in (self._running, *self._waiting.values()):
            if check is not None:
                check.then.pop(caller, None)

    def _wait(self, attempt: _Attempt, caller: Caller, then: Then) -> None:
        running = self._running
        same = running if running and running.attempt.key == attempt.key else self._waiting.get(attempt.key)
        if same is not None:
            same.then[caller] = then
            same.client = min(caller.client, same.client, key=self._failures_now())
        elif len(self._waiting) < LONGEST_QUEUE or self._make_room(caller.client):
            self._waiting[attempt.key] = _Check(attempt, caller.client, {caller: then})
            self._check_next()
        else:
            then(Verdict.TOO_MANY)

    def _make_room(self, client: str) -> bool:
        """Refuse the newest check of the client that has the most; False if that would be this client."""
        counts = Counter(check.client for check in self._waiting.values())
        counts[client] += 1
        failures = self._failures_now()
        most = max(counts, key=lambda each: (counts[each], failures(each), each == client))
        if most == client:
            return False
        newest = next(check for check in reversed(self._waiting.values()) if check.client == most)
        _tell(self._waiting.pop(newest.attempt.key), Verdict.TOO_MANY)
        return True

    def _check_next(self) -> None:
        """Begin with the oldest check of the client that has failed least."""
        if self._running is None and self._waiting:
            failures = self._failures_now()
            first = min(self._waiting.values(), key=lambda check: failures(check.client))
            self._running = self._waiting.pop(first.attempt.key)
            self._hand_over(first.attempt)

    def _failures_now(self) -> Callable[[str], float]:
        now = time.monotonic()  # one moment for all, lest the same client be less to blame each time it is looked at
        return lambda client: self._failures.of(client).spent(now)

    def refuse_waiting(self) -> None:
        """Tell all who wait that there are too many."""
        checks = [*self._waiting.values(), *([self._running] if self._running else ())]
        self._waiting.clear()
        for check in checks:
            _tell(check, Verdict.TOO_MANY)
            check.then.clear()

    async def close(self) -> None:
        """End the worker after the check that it is doing, for which it has two seconds."""
        self._attempts.put(None)
        # An interpreter that ends while a thread is within bcrypt aborts: the library is not made for being cut off.
        for _ in range(CLOSING_LOOKS):
            if self._worker is None or not self._worker.is_alive():
                return
            await asyncio.sleep(SECONDS_BETWEEN_CLOSING_LOOKS)

    def _attempt(self, user: bytes, password: bytes) -> _Attempt:
        hashed = self._users.get(user, self._nobody)
        digest = hashlib.blake2b(key=self._secret, digest_size=32)
        for part in (user, hashed, password):
            digest.update(len(part).to_bytes(8, "big") + part)
        return _Attempt(digest.digest(), user, hashed, password[:BCRYPT_PASSWORD_BYTES])

    def _hand_over(self, attempt: _Attempt) -> None:
        if self._worker is None:
            loop = asyncio.get_running_loop()
            self._worker = threading.Thread(target=self._work, args=(loop,), name="bcrypt", daemon=True)
            self._worker.start()
        self._attempts.put(attempt)

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        while (attempt := self._attempts.get()) is not None:
            verdict = Verdict.WELCOME if _bcrypt_matches(attempt.password, attempt.hashed) else Verdict.UNAUTHORIZED
            try:
                loop.call_soon_threadsafe(self._finish, attempt, verdict)
            except RuntimeError:  # the loop has ended, and with it everybody who waited
                return

    def _finish(self, attempt: _Attempt, verdict: Verdict) -> None:
        self.checks_done += 1
        if self._users.get(attempt.user) != attempt.hashed:
            verdict = Verdict.UNAUTHORIZED  # unknown all along, or gone or changed since the check was asked for
        self._remembered.put(attempt.key, verdict)
        check, self._running = self._running, None
        if check is not None:
            if verdict is Verdict.UNAUTHORIZED:
                self._failures.of(check.client).take(time.monotonic())
            _tell(check, verdict)
        self._check_next()


def _tell(check: _Check, verdict: Verdict) -> None:
    for then in list(check.then.values()):
        then(verdict)


class _Memory:
    """The newest verdicts; wrong passwords, which anybody can send, never push out a right one."""

    def __init__(self) -> None:
        self._verdicts: dict[Verdict, dict[bytes, None]] = {Verdict.WELCOME: {}, Verdict.UNAUTHORIZED: {}}

    def get(self, key: bytes) -> Verdict | None:
        """The verdict on a key, if it is remembered."""
        for verdict, keys in self._verdicts.items():
            if key in keys:
                del keys[key]
                keys[key] = None  # used now, so forgotten last
                return verdict
        return None

    def put(self, key: bytes, verdict: Verdict) -> None:
        """Remember a verdict, at the cost of the oldest wrong one if there are too many."""
        if sum(map(len, self._verdicts.values())) >= MOST_REMEMBERED:
            victims = self._verdicts[Verdict.UNAUTHORIZED] or self._verdicts[Verdict.WELCOME]
            del victims[next(iter(victims))]
        self._verdicts[verdict][key] = None


def parse_basic(header: str) -> tuple[bytes, bytes] | None:
    """User and password of an `Authorization: Basic …` header, None for anything else."""
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
    except (binascii.Error, ValueError):  # what is not base64 is nobody's password
        return None
    return (user, password) if colon else None


def _bcrypt_matches(password: bytes, hashed: bytes) -> bool:
    import bcrypt

    try:
        return bcrypt.checkpw(password, hashed)
    except ValueError:  # older bcrypt libraries refuse a password with a zero byte
        return False
