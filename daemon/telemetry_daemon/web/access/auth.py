"""Basic authentication with bcrypt: a thread checks one password at a time, clients take turns, results are remembered."""

from __future__ import annotations

import asyncio
import base64
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from queue import SimpleQueue

from telemetry_daemon.web.clients import Buckets, Caller
from telemetry_parsers.dataclass import dataclass

# With these limits 32 guessers and a scraper at one address all get their turn: at bcrypt cost 12, within 10 seconds.
LONGEST_QUEUE = 64
# More failures do not delay a client further, so that a scraper at the address of many guessers gets its turn, too.
FAILURES_HELD_AGAINST = 16
SECONDS_TO_FORGIVE_ONE = 15.0
MOST_REMEMBERED = 100
CLOSING_LOOKS = 200  # two seconds in all
SECONDS_BETWEEN_CLOSING_LOOKS = 0.01
BCRYPT_PASSWORD_BYTES = 72  # bcrypt reads no more. The library raises an error, other libraries truncate.
# The hash for checks of unknown users. No password for it is known.
_UNKNOWN_USER = "$2b${cost:02}$" + "." * 21 + "u" + "." * 31


class LoginResult(Enum):
    """The result of a name and password."""

    RIGHT = "the password is right"
    WRONG = "no name and password, or wrong ones"
    TOO_MANY = "too many checks are waiting"


Then = Callable[[LoginResult], None]


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A password to check; `key` identifies user, hash and password together."""

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

    def __init__(self) -> None:
        self._users: Mapping[bytes, bytes] = {}
        self._unknown_user = b""
        self._secret = os.urandom(32)
        self._remembered = _Memory()
        self._waiting: dict[bytes, _Check] = {}  # in order of arrival
        self._running: _Check | None = None
        self._failures = Buckets(SECONDS_TO_FORGIVE_ONE, FAILURES_HELD_AGAINST)
        self._attempts: SimpleQueue[_Attempt | None] = SimpleQueue()
        self._worker: threading.Thread | None = None
        self.checks_done = 0

    def set_users(self, users: Sequence[tuple[str, str]]) -> None:
        """Allow exactly these users from now on."""
        self._users = {name.encode(): hashed.encode() for name, hashed in users}
        # A check for an unknown user takes as long as the slowest check for a known user, so that the time does not
        # reveal known users.
        cost = max((int(hashed[4:6]) for _, hashed in users), default=10)
        self._unknown_user = _UNKNOWN_USER.format(cost=cost).encode()

    @property
    def required(self) -> bool:
        """Return whether a password is required."""
        return bool(self._users)

    @property
    def waiting(self) -> int:
        """Return how many callers wait for a check, the running check included."""
        return sum(len(check.then) for check in self._unfinished())

    def recognise(self, header: str) -> bytes | None:
        """Return the user if this password was checked before and is right, else None."""
        credentials = parse_basic(header) if self.required else None
        if credentials is None or self._remembered.get(self._attempt(*credentials).key) is not LoginResult.RIGHT:
            return None
        return credentials[0]

    def check(self, header: str, caller: Caller, then: Then) -> None:
        """Call `then` with the result: at once if it is remembered, else after the bcrypt check."""
        credentials = parse_basic(header)
        if credentials is None:
            then(LoginResult.WRONG)
            return
        attempt = self._attempt(*credentials)
        result = self._remembered.get(attempt.key)
        if result is not None:
            then(result)
        else:
            self._wait(attempt, caller, then)

    def forget(self, caller: Caller) -> None:
        """Drop the pending answer to this caller. The password check still completes, because the client will retry."""
        for check in self._unfinished():
            check.then.pop(caller, None)

    def _unfinished(self) -> list[_Check]:
        return [*self._waiting.values(), *([self._running] if self._running else ())]

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
            then(LoginResult.TOO_MANY)

    def _make_room(self, client: str) -> bool:
        """Refuse the newest check of the client that has the most. Return False if this is the same client."""
        counts = Counter(check.client for check in self._waiting.values())
        counts[client] += 1
        failures = self._failures_now()
        most = max(counts, key=lambda name: (counts[name], failures(name), name == client))
        if most == client:
            return False
        newest = next(check for check in reversed(self._waiting.values()) if check.client == most)
        _answer(self._waiting.pop(newest.attempt.key), LoginResult.TOO_MANY)
        return True

    def _check_next(self) -> None:
        """Start the oldest check of the client with the fewest failures."""
        if self._running is None and self._waiting:
            failures = self._failures_now()
            first = min(self._waiting.values(), key=lambda check: failures(check.client))
            self._running = self._waiting.pop(first.attempt.key)
            self._hand_over(first.attempt)

    def _failures_now(self) -> Callable[[str], float]:
        now = time.monotonic()  # one time for all: failures are forgiven with time
        return lambda client: self._failures.of(client).spent(now)

    def refuse_waiting(self) -> None:
        """Refuse all waiting callers as too many."""
        checks = self._unfinished()
        self._waiting.clear()
        for check in checks:
            _answer(check, LoginResult.TOO_MANY)
            check.then.clear()

    async def close(self) -> None:
        """End the worker; a running check has two seconds."""
        self._attempts.put(None)
        # An interpreter that exits while a thread is within bcrypt aborts.
        for _ in range(CLOSING_LOOKS):
            if self._worker is None or not self._worker.is_alive():
                return
            await asyncio.sleep(SECONDS_BETWEEN_CLOSING_LOOKS)

    def _attempt(self, user: bytes, password: bytes) -> _Attempt:
        hashed = self._users.get(user, self._unknown_user)
        from hashlib import blake2b  # a daemon without passwords does without OpenSSL's libcrypto

        digest = blake2b(key=self._secret, digest_size=32)
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
            result = LoginResult.RIGHT if _bcrypt_matches(attempt.password, attempt.hashed) else LoginResult.WRONG
            try:
                loop.call_soon_threadsafe(self._finish, attempt, result)
            except RuntimeError:  # the loop has ended, with all waiting callers
                return

    def _finish(self, attempt: _Attempt, result: LoginResult) -> None:
        self.checks_done += 1
        if self._users.get(attempt.user) != attempt.hashed:
            result = LoginResult.WRONG  # an unknown user, or removed or changed since the check was requested
        self._remembered.put(attempt.key, result)
        check, self._running = self._running, None
        if check is not None:
            if result is LoginResult.WRONG:
                self._failures.of(check.client).take(time.monotonic())
            _answer(check, result)
        self._check_next()


def _answer(check: _Check, result: LoginResult) -> None:
    for then in list(check.then.values()):
        then(result)


class _Memory:
    """The newest results. Any client can send wrong passwords, so a wrong result never replaces a right one."""

    def __init__(self) -> None:
        self._results: dict[LoginResult, dict[bytes, None]] = {LoginResult.RIGHT: {}, LoginResult.WRONG: {}}

    def get(self, key: bytes) -> LoginResult | None:
        """Return the remembered result for a key, or None."""
        for result, keys in self._results.items():
            if key in keys:
                del keys[key]
                keys[key] = None  # just used, so dropped last
                return result
        return None

    def put(self, key: bytes, result: LoginResult) -> None:
        """Remember a result; if there are too many, the oldest wrong result is dropped."""
        if sum(map(len, self._results.values())) >= MOST_REMEMBERED:
            keys = self._results[LoginResult.WRONG] or self._results[LoginResult.RIGHT]
            del keys[next(iter(keys))]
        self._results[result][key] = None


def parse_basic(header: str) -> tuple[bytes, bytes] | None:
    """Return user and password of an `Authorization: Basic …` header, or None for anything else."""
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
    except ValueError:  # invalid base64 is never a password
        return None
    return (user, password) if colon else None


def _bcrypt_matches(password: bytes, hashed: bytes) -> bool:
    import bcrypt

    try:
        return bcrypt.checkpw(password, hashed)
    except ValueError:  # older bcrypt libraries refuse a password with a zero byte
        return False
