"""Basic authentication with bcrypt, in a separate thread."""

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

from telemetry_daemon.web.clients import Caller, ClientBuckets
from telemetry_parsers.dataclass import dataclass

# In a test, 32 password guessers and a scraper were each served within 10 s at bcrypt cost 12.
MAX_QUEUE_LENGTH = 64
# More failures do not delay a client further, because a scraper may share its address with guessers.
MAX_COUNTED_FAILURES = 16
SECONDS_TO_FORGIVE_FAILURE = 15.0
MAX_CACHED_RESULTS = 100
CLOSING_CHECKS = 200  # two seconds in total
CLOSING_CHECK_SECONDS = 0.01
BCRYPT_PASSWORD_BYTES = 72  # bcrypt ignores further bytes, and the Python library rejects longer passwords
# For unknown users, the password is compared with this hash, which no password matches.
_UNKNOWN_USER_HASH = "$2b${cost:02}$" + "." * 21 + "u" + "." * 31


class LoginResult(Enum):
    """The result of a login attempt."""

    RIGHT = "correct user name and password"
    WRONG = "missing or wrong user name or password"
    TOO_MANY = "too many checks are waiting"


Callback = Callable[[LoginResult], None]


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A password to check."""

    key: bytes
    user: bytes
    hashed: bytes
    password: bytes


@dataclass(slots=True)
class _PendingCheck:
    """A password check, and the callbacks of the callers that wait for it."""

    attempt: _Attempt
    client: str
    callbacks: dict[Caller, Callback]


class BasicAuth:
    """Checks `Authorization` headers. Not thread-safe."""

    def __init__(self) -> None:
        self._users: Mapping[bytes, bytes] = {}
        self._unknown_user_hash = b""
        self._secret = os.urandom(32)
        self._cache = _ResultCache()
        self._waiting_checks: dict[bytes, _PendingCheck] = {}  # in the order of arrival
        self._running_check: _PendingCheck | None = None
        self._failures = ClientBuckets(SECONDS_TO_FORGIVE_FAILURE, MAX_COUNTED_FAILURES)
        self._attempt_queue: SimpleQueue[_Attempt | None] = SimpleQueue()
        self._worker: threading.Thread | None = None
        self.checks_done = 0

    def set_users(self, users: Sequence[tuple[str, str]]) -> None:
        """Replace the users, given as pairs of name and bcrypt hash."""
        self._users = {name.encode(): hashed.encode() for name, hashed in users}
        # The duration of a check must not reveal whether a user exists.
        cost = max((int(hashed[4:6]) for _, hashed in users), default=10)
        self._unknown_user_hash = _UNKNOWN_USER_HASH.format(cost=cost).encode()

    @property
    def is_required(self) -> bool:
        """Return whether a password is required."""
        return bool(self._users)

    @property
    def waiting_callers(self) -> int:
        """Return the number of callers that wait for a check."""
        return sum(len(check.callbacks) for check in self._pending_checks())

    def cached_user(self, header: str) -> bytes | None:
        """Return the user in the header if the password passed an earlier check, else None."""
        credentials = parse_basic(header) if self.is_required else None
        if credentials is None or self._cache.get(self._create_attempt(*credentials).key) is not LoginResult.RIGHT:
            return None
        return credentials[0]

    def check(self, header: str, caller: Caller, callback: Callback) -> None:
        """Check the password in a header, and call `callback` with the result."""
        credentials = parse_basic(header)
        if credentials is None:
            callback(LoginResult.WRONG)
            return
        attempt = self._create_attempt(*credentials)
        result = self._cache.get(attempt.key)
        if result is not None:
            callback(result)
        else:
            self._enqueue(attempt, caller, callback)

    def forget(self, caller: Caller) -> None:
        """Drop the callback of a caller that has disconnected."""
        for check in self._pending_checks():
            check.callbacks.pop(caller, None)

    def _pending_checks(self) -> list[_PendingCheck]:
        return [*self._waiting_checks.values(), *([self._running_check] if self._running_check else ())]

    def _enqueue(self, attempt: _Attempt, caller: Caller, callback: Callback) -> None:
        running = self._running_check
        pending = running if running and running.attempt.key == attempt.key else self._waiting_checks.get(attempt.key)
        if pending is not None:
            pending.callbacks[caller] = callback
            pending.client = min(caller.client, pending.client, key=self._make_failure_counter())
        elif len(self._waiting_checks) < MAX_QUEUE_LENGTH or self._evict_newest_check(caller.client):
            self._waiting_checks[attempt.key] = _PendingCheck(attempt, caller.client, {caller: callback})
            self._check_next()
        else:
            callback(LoginResult.TOO_MANY)

    def _evict_newest_check(self, client: str) -> bool:
        """Drop the newest check of the busiest client. Return False if `client` is the busiest."""
        counts = Counter(check.client for check in self._waiting_checks.values())
        counts[client] += 1
        count_failures = self._make_failure_counter()
        busiest = max(counts, key=lambda name: (counts[name], count_failures(name), name == client))
        if busiest == client:
            return False
        newest_check = next(check for check in reversed(self._waiting_checks.values()) if check.client == busiest)
        _notify_callers(self._waiting_checks.pop(newest_check.attempt.key), LoginResult.TOO_MANY)
        return True

    def _check_next(self) -> None:
        if self._running_check is None and self._waiting_checks:
            count_failures = self._make_failure_counter()
            next_check = min(self._waiting_checks.values(), key=lambda check: count_failures(check.client))
            self._running_check = self._waiting_checks.pop(next_check.attempt.key)
            self._send_to_worker(next_check.attempt)

    def _make_failure_counter(self) -> Callable[[str], float]:
        now = time.monotonic()  # failures are comparable only if they are counted at the same time
        return lambda client: self._failures.for_client(client).missing_tokens(now)

    def refuse_waiting(self) -> None:
        """Answer all waiting callers with TOO_MANY."""
        checks = self._pending_checks()
        self._waiting_checks.clear()
        for check in checks:
            _notify_callers(check, LoginResult.TOO_MANY)
            check.callbacks.clear()

    async def close(self) -> None:
        """Stop the worker thread, and wait up to two seconds for a running check."""
        self._attempt_queue.put(None)
        # The interpreter must not exit while a thread runs bcrypt.
        for _ in range(CLOSING_CHECKS):
            if self._worker is None or not self._worker.is_alive():
                return
            await asyncio.sleep(CLOSING_CHECK_SECONDS)  # joining the thread would block the event loop

    def _create_attempt(self, user: bytes, password: bytes) -> _Attempt:
        hashed = self._users.get(user, self._unknown_user_hash)
        from hashlib import blake2b  # loads libcrypto, only for daemons with passwords

        digest = blake2b(key=self._secret, digest_size=32)
        for part in (user, hashed, password):
            digest.update(len(part).to_bytes(8, "big") + part)
        return _Attempt(digest.digest(), user, hashed, password[:BCRYPT_PASSWORD_BYTES])

    def _send_to_worker(self, attempt: _Attempt) -> None:
        if self._worker is None:
            loop = asyncio.get_running_loop()
            self._worker = threading.Thread(target=self._run_worker, args=(loop,), name="bcrypt", daemon=True)
            self._worker.start()
        self._attempt_queue.put(attempt)

    def _run_worker(self, loop: asyncio.AbstractEventLoop) -> None:
        while (attempt := self._attempt_queue.get()) is not None:
            result = LoginResult.RIGHT if _bcrypt_matches(attempt.password, attempt.hashed) else LoginResult.WRONG
            try:
                loop.call_soon_threadsafe(self._finish, attempt, result)
            except RuntimeError:  # the loop is closed, and no caller waits
                return

    def _finish(self, attempt: _Attempt, result: LoginResult) -> None:
        self.checks_done += 1
        if self._users.get(attempt.user) != attempt.hashed:
            result = LoginResult.WRONG  # an unknown user, or a user who was changed during the check
        self._cache.put(attempt.key, result)
        check, self._running_check = self._running_check, None
        if check is not None:
            if result is LoginResult.WRONG:
                self._failures.for_client(check.client).take(time.monotonic())
            _notify_callers(check, result)
        self._check_next()


def _notify_callers(check: _PendingCheck, result: LoginResult) -> None:
    for callback in list(check.callbacks.values()):
        callback(result)


class _ResultCache:
    """A cache of login results. Wrong results never evict right ones."""

    def __init__(self) -> None:
        self._results: dict[LoginResult, dict[bytes, None]] = {LoginResult.RIGHT: {}, LoginResult.WRONG: {}}

    def get(self, key: bytes) -> LoginResult | None:
        for result, keys in self._results.items():
            if key in keys:
                del keys[key]
                keys[key] = None  # moves the most recently used key to the end
                return result
        return None

    def put(self, key: bytes, result: LoginResult) -> None:
        """Cache a login result. A full cache evicts its oldest wrong result first."""
        if sum(map(len, self._results.values())) >= MAX_CACHED_RESULTS:
            keys = self._results[LoginResult.WRONG] or self._results[LoginResult.RIGHT]
            del keys[next(iter(keys))]
        self._results[result][key] = None


def parse_basic(header: str) -> tuple[bytes, bytes] | None:
    """Return the user and password in an `Authorization: Basic` header, or None if the header is invalid."""
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
    except ValueError:  # invalid base64
        return None
    return (user, password) if colon else None


def _bcrypt_matches(password: bytes, hashed: bytes) -> bool:
    import bcrypt

    try:
        return bcrypt.checkpw(password, hashed)
    except ValueError:  # older bcrypt libraries reject a zero byte
        return False
