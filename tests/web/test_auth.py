"""Basic authentication: logins, their cost, and floods of guesses."""

import base64
import contextlib
import select
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kits.waiting import PATIENCE_SECONDS, until
from kits.web_server import RunningServer, basic, cheap_hash, connect, fetch, read_to_end, running_server
from telemetry_daemon.web.access import auth
from telemetry_daemon.web.access.auth import MAX_CACHED_RESULTS, MAX_QUEUE_LENGTH
from telemetry_daemon.web.messages import Request, Response

WebFile = Callable[[str], Path]
LONG = "x" * 100


def users(*pairs: tuple[str, str]) -> str:
    return "basic_auth_users:\n" + "".join(f"  {name}: {hashed}\n" for name, hashed in pairs)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (basic("alice", "secret"), 200),
        (basic("bob", "pass:with:colons"), 200),
        (basic("jürgen", "gemüse"), 200),
        (basic("long", LONG), 200),
        (basic("long", LONG[:72] + "anything"), 200),  # bcrypt uses only 72 bytes
        (basic("long", LONG[:71]), 401),
        (basic("alice", "wrong"), 401),
        (basic("alice", ""), 401),
        (basic("alice", "secret\0"), 401),
        (basic("bob", "secret"), 401),
        (basic("unknown", "secret"), 401),
        (basic("", ""), 401),
        (basic("ALICE", "secret"), 401),
        ({}, 401),
        ({"Authorization": "Basic"}, 401),
        ({"Authorization": "Basic !" + base64.b64encode(b"alice:secret").decode()}, 401),
        ({"Authorization": "Basic YTp"}, 401),
        ({"Authorization": "Basics " + base64.b64encode(b"alice:secret").decode()}, 401),
        ({"Authorization": "Basic " + base64.b64encode(b"no colon").decode()}, 401),
        ({"Authorization": "Bearer abc"}, 401),
        ({"Authorization": "bAsIc   " + base64.b64encode(b"alice:secret").decode() + "  "}, 200),
    ],
)
def test_valid_logins_are_accepted(web_file: WebFile, headers: dict[str, str], status: int) -> None:
    pairs = [("alice", "secret"), ("bob", "pass:with:colons"), ("jürgen", "gemüse"), ("long", LONG[:72])]
    file = web_file(users(*((name, cheap_hash(password)) for name, password in pairs)))
    with running_server(config_file=file) as running:
        reply = fetch(running.port, headers=headers)
    assert reply.status == status
    if status == 401:
        assert reply.headers["www-authenticate"] == "Basic"
        assert reply.body == b"Unauthorized\n"


@pytest.mark.parametrize("variant", ["2a", "2b", "2y"])
def test_all_variants_of_bcrypt_hashes(web_file: WebFile, variant: str) -> None:
    hashed = cheap_hash("secret").replace("$2b$", f"${variant}$")
    with running_server(config_file=web_file(users(("alice", hashed)))) as running:
        assert fetch(running.port, headers=basic("alice", "secret")).status == 200
        assert fetch(running.port, headers=basic("alice", "wrong")).status == 401


def test_right_and_wrong_passwords_are_each_checked_once_and_what_is_none_never(web_file: WebFile) -> None:
    with running_server(config_file=web_file(users(("alice", cheap_hash("secret"))))) as running:
        for _ in range(5):
            assert fetch(running.port, headers=basic("alice", "secret")).status == 200
            assert fetch(running.port, headers=basic("alice", "wrong")).status == 401
            assert fetch(running.port, headers=basic("unknown", "secret")).status == 401
            for headers in ({}, *({"Authorization": text} for text in ("Basic !!!", "Basic YQ==", "Bearer x"))):
                assert fetch(running.port, headers=headers).status == 401
        assert running.statistics().password_checks == 3


def test_every_path_is_protected_and_nothing_reaches_the_site(web_file: WebFile) -> None:
    requested: list[str] = []

    def site(request: Request) -> Response:
        requested.append(request.path)
        return Response(200, (b"",))

    with running_server(site, config_file=web_file(users(("alice", cheap_hash("secret"))))) as running:
        for path in ("/", "/metrics", "/healthz", "/api/v1/snapshot", "/nothing"):
            assert fetch(running.port, path).status == 401
            assert fetch(running.port, path, method="HEAD").status == 401
    assert requested == []


def test_the_right_password_is_never_forgotten_for_wrong_ones(web_file: WebFile) -> None:
    with running_server(config_file=web_file(users(("alice", cheap_hash("secret"))))) as running:
        assert fetch(running.port, headers=basic("alice", "secret")).status == 200
        for number in range(MAX_CACHED_RESULTS + 20):
            assert fetch(running.port, headers=basic("alice", f"guess {number}")).status == 401
        before = running.statistics().password_checks
        assert before == MAX_CACHED_RESULTS + 21
        assert fetch(running.port, headers=basic("alice", "secret")).status == 200
        assert fetch(running.port, headers=basic("alice", f"guess {MAX_CACHED_RESULTS + 19}")).status == 401
        assert running.statistics().password_checks == before
        assert fetch(running.port, headers=basic("alice", "guess 0")).status == 401
        assert running.statistics().password_checks == before + 1


class Held:
    """A server whose password checks wait until the test lets them pass; every user's password is "secret"."""

    def __init__(self, running: RunningServer, clients: contextlib.ExitStack) -> None:
        self.running = running
        self._clients = clients
        self.hashes: list[bytes] = []
        self._turns = threading.Semaphore(0)

    def matches(self, password: bytes, hashed: bytes) -> bool:
        self.hashes.append(hashed)
        assert self._turns.acquire(timeout=PATIENCE_SECONDS)
        return password == b"secret"

    def let_pass(self, checks: int = 1) -> None:
        self._turns.release(checks)

    def ask(self, *passwords: str, source: str = "127.0.0.1") -> list[socket.socket]:
        """Send requests with these passwords at once; return when all wait for a check."""
        before = self.waiting
        clients = [self.send(password, source=source) for password in passwords]
        until(lambda: self.waiting == before + len(clients), "that all wait")
        return clients

    def send(self, password: str, user: str = "alice", source: str = "127.0.0.1") -> socket.socket:
        client = self._clients.enter_context(connect(self.running.port, source))
        header = basic(user, password)["Authorization"]
        client.sendall(
            f"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: {header}\r\nConnection: close\r\n\r\n".encode()
        )
        return client

    @property
    def waiting(self) -> int:
        return self.running.statistics().waiting_for_password_check

    @property
    def checks(self) -> int:
        return self.running.statistics().password_checks


@pytest.fixture
def held(web_file: WebFile, monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    dear, cheap = (f"$2b${cost}$" + "a" * 53 for cost in ("11", "04"))
    file = web_file(users(("alice", dear), ("bob", cheap)))
    with running_server(config_file=file) as running, contextlib.ExitStack() as clients:
        held = Held(running, clients)
        monkeypatch.setattr(auth, "_bcrypt_matches", held.matches)
        yield held
        held.let_pass(1000)


def guesses(count: int) -> list[str]:
    return [f"guess {number} of {count}" for number in range(count)]


def statuses(clients: list[socket.socket]) -> list[int]:
    return [int(read_to_end(client).split(b" ", 2)[1]) for client in clients]


def answered(clients: list[socket.socket]) -> int:
    return len(select.select(clients, [], [], 0)[0])


def test_one_check_runs_some_wait_and_the_rest_is_refused(held: Held) -> None:
    clients = [held.send(guess) for guess in guesses(MAX_QUEUE_LENGTH + 21)]
    until(lambda: answered(clients) == 20, "that all others wait")
    held.let_pass(MAX_QUEUE_LENGTH + 1)
    assert Counter(statuses(clients)) == {401: MAX_QUEUE_LENGTH + 1, 429: 20}
    assert held.checks == MAX_QUEUE_LENGTH + 1


def test_the_same_password_asked_for_at_once_is_checked_once(held: Held) -> None:
    clients = held.ask(*["secret"] * 50)
    held.let_pass()
    assert statuses(clients) == [200] * 50
    assert held.checks == 1


def test_a_known_password_waits_for_no_guess(held: Held) -> None:
    held.let_pass()
    assert statuses([held.send("secret")]) == [200]
    clients = held.ask(*guesses(12))
    assert [fetch(held.running.port, headers=basic("alice", "secret")).status for _ in range(3)] == [200] * 3
    assert (held.checks, answered(clients)) == (1, 0)


@pytest.mark.parametrize(
    "sources",
    [
        pytest.param(["127.0.0.2"] * 32, id="one address"),
        pytest.param([f"127.0.0.{number}" for number in range(2, 34)], id="32 addresses"),
    ],
)
def test_client_without_failures_is_checked_before_guessers(held: Held, sources: list[str]) -> None:
    held.let_pass(32)
    assert statuses([held.send(f"guess {n}", source=source) for n, source in enumerate(sources)]) == [401] * 32
    for number, source in enumerate(sources):
        held.send(f"another guess {number}", source=source)
    until(lambda: held.waiting == 32, "that all wait")
    honest = held.ask("secret")
    held.let_pass(2)
    assert statuses(honest) == [200]
    assert held.checks == 32 + 2, "the one that ran, and its own"


def test_one_at_the_address_of_32_guessers_gets_in_at_its_first_request(held: Held) -> None:
    held.let_pass(32)
    assert statuses([held.send(guess) for guess in guesses(32)]) == [401] * 32
    before, honest, after = held.ask(*guesses(31)), held.ask("secret"), held.ask("a guess more")
    held.let_pass(32)
    assert statuses(honest) == [200]
    assert (held.checks, answered(after)) == (64, 0)
    assert statuses(before) == [401] * 31


def test_client_with_the_most_waiting_checks_makes_room(held: Held) -> None:
    held.ask(*guesses(MAX_QUEUE_LENGTH), source="127.0.0.2")
    newest = held.ask("the newest", source="127.0.0.2")
    assert statuses([held.send("one more", source="127.0.0.2")]) == [429]
    honest = held.send("secret", source="127.0.0.3")
    assert statuses(newest) == [429]
    held.let_pass(2)
    assert statuses([honest]) == [200]
    assert held.checks == 2


def test_one_client_is_served_in_the_order_in_which_it_asked(held: Held) -> None:
    held.let_pass()
    assert statuses([held.send("the first failure")]) == [401]
    clients = [client for guess in guesses(12) for client in held.ask(guess)]
    while clients:
        held.let_pass()
        assert statuses([clients.pop(0)]) == [401]
        assert answered(clients) == 0


def test_a_client_that_hangs_up_is_forgotten_and_its_password_checked(held: Held) -> None:
    for client in (*held.ask("guess"), *held.ask(*["secret"] * 20)):
        client.close()
    until(lambda: held.waiting == 0, "no waiting checks")
    held.let_pass(2)
    until(lambda: held.checks == 2, "the checks")
    assert fetch(held.running.port, headers=basic("alice", "secret")).status == 200
    assert held.checks == 2
    until(lambda: held.running.connections() == 0, "the end of all connections")


def test_a_password_that_somebody_else_waits_for_moves_up(held: Held) -> None:
    held.let_pass()
    assert statuses([held.send("the first failure", source="127.0.0.2")]) == [401]
    held.ask(*guesses(20), source="127.0.0.2")
    pair = [*held.ask("secret", source="127.0.0.2"), *held.ask("secret", source="127.0.0.3")]
    held.let_pass(2)
    assert statuses(pair) == [200, 200]
    assert held.checks == 3


def test_check_of_an_unknown_user_takes_as_long_as_the_slowest_hash(held: Held) -> None:
    held.let_pass(2)
    assert statuses([held.send("wrong", "bob")]) + statuses([held.send("wrong", "unknown")]) == [401, 401]
    assert [hashed[:7] for hashed in held.hashes] == [b"$2b$04$", b"$2b$11$"]


def test_the_server_ends_while_checks_are_waiting(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "CLOSING_CHECKS", 6000)
    clients = held.ask(*guesses(9))
    closing = threading.Thread(target=held.running.call, args=(held.running.server.close(),))
    closing.start()
    assert statuses(clients) == [429] * 9
    held.let_pass()
    closing.join()
    assert "bcrypt" not in [thread.name for thread in threading.enumerate()]
