"""Basic authentication: who is let in, what it costs, and what a flood of guesses does."""

from __future__ import annotations

import base64
import select
import socket
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path

import bcrypt
import pytest

from kits.waiting import scaled, until
from kits.web_server import RunningServer, basic, cheap_hash, connect, fetch, read_to_end, running_server
from telemetry_daemon.web.access.auth import LONGEST_QUEUE, MOST_REMEMBERED, parse_basic
from telemetry_daemon.web.messages import Request, Response
from telemetry_daemon.web.server.open_connections import Phase

WebFile = Callable[[str], Path]
DEAR_HASH = bcrypt.hashpw(b"secret", bcrypt.gensalt(9)).decode()
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
        (basic("long", LONG[:72] + "anything"), 200),  # bcrypt reads 72 bytes, here as everywhere
        (basic("long", LONG[:71]), 401),
        (basic("alice", "wrong"), 401),
        (basic("alice", ""), 401),
        (basic("alice", "secret\0"), 401),
        (basic("bob", "secret"), 401),
        (basic("nobody", "secret"), 401),
        (basic("", ""), 401),
        (basic("ALICE", "secret"), 401),
        ({}, 401),
        ({"Authorization": "Basic"}, 401),
        ({"Authorization": "Basic !!!"}, 401),
        ({"Authorization": "Basic " + base64.b64encode(b"no colon").decode()}, 401),
        ({"Authorization": "Bearer abc"}, 401),
        ({"Authorization": "bAsIc " + base64.b64encode(b"alice:secret").decode()}, 200),
    ],
)
def test_who_is_let_in(web_file: WebFile, headers: dict[str, str], status: int) -> None:
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


def test_right_and_wrong_passwords_are_each_checked_once(web_file: WebFile) -> None:
    with running_server(config_file=web_file(users(("alice", cheap_hash("secret"))))) as running:
        for _ in range(5):
            assert fetch(running.port, headers=basic("alice", "secret")).status == 200
            assert fetch(running.port, headers=basic("alice", "wrong")).status == 401
            assert fetch(running.port, headers=basic("nobody", "secret")).status == 401
        assert running.statistics().password_checks == 3


def test_what_cannot_be_right_is_not_checked_at_all(web_file: WebFile) -> None:
    with running_server(config_file=web_file(users(("alice", cheap_hash("secret"))))) as running:
        for headers in ({}, {"Authorization": "Basic !!!"}, {"Authorization": "Bearer x"}):
            assert fetch(running.port, headers=headers).status == 401
        assert running.statistics().password_checks == 0


def test_every_path_is_protected_and_nothing_reaches_the_site(web_file: WebFile) -> None:
    asked: list[str] = []

    def site(request: Request) -> Response:
        asked.append(request.path)
        return Response(200, (b"",))

    with running_server(site, config_file=web_file(users(("alice", cheap_hash("secret"))))) as running:
        for path in ("/", "/metrics", "/healthz", "/api/v1/snapshot", "/nothing"):
            assert fetch(running.port, path).status == 401
            assert fetch(running.port, path, method="HEAD").status == 401
    assert asked == []


def test_the_right_password_is_never_forgotten_for_wrong_ones(web_file: WebFile) -> None:
    with running_server(config_file=web_file(users(("alice", cheap_hash("secret"))))) as running:
        assert fetch(running.port, headers=basic("alice", "secret")).status == 200
        for number in range(MOST_REMEMBERED + 20):
            assert fetch(running.port, headers=basic("alice", f"guess {number}")).status == 401
        before = running.statistics().password_checks
        assert before == MOST_REMEMBERED + 21
        assert fetch(running.port, headers=basic("alice", "secret")).status == 200
        assert fetch(running.port, headers=basic("alice", f"guess {MOST_REMEMBERED + 19}")).status == 401
        assert running.statistics().password_checks == before
        assert fetch(running.port, headers=basic("alice", "guess 0")).status == 401
        assert running.statistics().password_checks == before + 1


def ask(running: RunningServer, user: str, password: str, source: str = "127.0.0.1") -> socket.socket:
    client = connect(running.port, source)
    header = basic(user, password)["Authorization"]
    client.sendall(
        f"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: {header}\r\nConnection: close\r\n\r\n".encode()
    )
    return client


def statuses(clients: list[socket.socket]) -> list[int]:
    found = []
    for client in clients:
        found.append(int(read_to_end(client).split(b" ", 2)[1]))
        client.close()
    return found


def test_one_check_runs_some_wait_and_the_rest_is_told_to_come_later(web_file: WebFile) -> None:
    with running_server(config_file=web_file(users(("alice", DEAR_HASH)))) as running:
        # The first check must not end before the last request is read: together they are.
        found = statuses([ask(running, "alice", f"guess {number}") for number in range(200)])
        assert running.statistics().password_checks == found.count(401)
    assert set(found) == {401, 429}
    assert found.count(401) >= LONGEST_QUEUE + 1
    assert found.count(429) > 100


def test_the_same_password_asked_for_at_once_is_checked_once(web_file: WebFile) -> None:
    with running_server(config_file=web_file(users(("alice", DEAR_HASH)))) as running:
        found = statuses([ask(running, "alice", "secret") for _ in range(50)])
        assert found == [200] * 50
        assert running.statistics().password_checks == 1


class Guessers:
    """Clients that ask with another wrong password as soon as they have their answer."""

    def __init__(self, running: RunningServer, sources: list[str]) -> None:
        self.statuses: list[int] = []
        self._running = running
        self._enough = threading.Event()
        self._threads = [threading.Thread(target=self._guess, args=place) for place in enumerate(sources)]

    def _guess(self, who: int, source: str) -> None:
        number = 0
        while not self._enough.is_set():
            number += 1
            headers = basic("alice", f"{who} {number}")
            self.statuses.append(fetch(self._running.port, headers=headers, source=source).status)

    def __enter__(self) -> Guessers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        for thread in self._threads:
            thread.join()


def test_a_flood_of_guesses_does_not_slow_down_who_is_known(web_file: WebFile, record_property: Callable) -> None:
    dear = bcrypt.hashpw(b"secret", bcrypt.gensalt(10)).decode()
    with running_server(config_file=web_file(users(("alice", dear)))) as running:
        assert fetch(running.port, headers=basic("alice", "secret")).status == 200
        with Guessers(running, ["127.0.0.1"] * 12) as guessers:
            until(lambda: len(guessers.statuses) > 20, "a flood")
            seconds = []
            for _ in range(100):
                begun = time.perf_counter()
                assert fetch(running.port, headers=basic("alice", "secret")).status == 200
                seconds.append(time.perf_counter() - begun)
    record_property("median_scrape_ms_in_password_flood", round(statistics.median(seconds) * 1000, 1))
    record_property("worst_scrape_ms_in_password_flood", round(max(seconds) * 1000, 1))
    assert set(guessers.statuses) == {401}
    assert statistics.median(seconds) < scaled(1.0)


@pytest.mark.parametrize(
    "sources",
    [
        pytest.param(["127.0.0.2"] * 32, id="one address", marks=pytest.mark.long),
        pytest.param([f"127.0.0.{number}" for number in range(2, 34)], id="32 addresses"),
    ],
)
def test_who_has_not_failed_goes_before_all_guessers(web_file: WebFile, sources: list[str]) -> None:
    with running_server(config_file=web_file(users(("alice", DEAR_HASH)))) as running:
        with Guessers(running, sources) as guessers:
            until(lambda: len(guessers.statuses) > 40, "that every guesser has failed")
            before = running.statistics().password_checks
            assert fetch(running.port, headers=basic("alice", "secret")).status == 200
            # The one that ran, his own, and those that ran while his answer was on its way.
            assert running.statistics().password_checks - before <= 6
        assert set(guessers.statuses) == {401}


def test_one_of_32_guessers_address_gets_in_at_the_first_request(web_file: WebFile) -> None:
    with running_server(config_file=web_file(users(("alice", DEAR_HASH)))) as running:
        with Guessers(running, ["127.0.0.1"] * 32) as guessers:
            until(lambda: len(guessers.statuses) > 40, "a flood")
            before = running.statistics().password_checks
            assert fetch(running.port, headers=basic("alice", "secret")).status == 200
            assert running.statistics().password_checks - before <= 40
        assert set(guessers.statuses) == {401}


def test_when_all_places_are_taken_the_client_with_the_most_makes_room(web_file: WebFile) -> None:
    dear = bcrypt.hashpw(b"secret", bcrypt.gensalt(12)).decode()
    with running_server(config_file=web_file(users(("alice", dear)))) as running:
        clients = [ask(running, "alice", f"guess {number}", "127.0.0.2") for number in range(LONGEST_QUEUE + 1)]
        until(lambda: running.connections(Phase.ANSWERING) == LONGEST_QUEUE + 1, "that all places are taken")
        (beyond,) = statuses([ask(running, "alice", "one more", "127.0.0.2")])
        with ask(running, "alice", "secret", "127.0.0.3") as honest:
            assert statuses([clients.pop()]) == [429]
            assert statuses([honest]) == [200]
        assert beyond == 429
        assert running.statistics().password_checks <= 4
    for client in clients:
        client.close()


def test_one_client_is_served_in_the_order_in_which_it_asked(web_file: WebFile) -> None:
    with running_server(config_file=web_file(users(("alice", DEAR_HASH)))) as running:
        assert fetch(running.port, headers=basic("alice", "the first failure")).status == 401
        clients = []
        for number in range(12):
            clients.append(ask(running, "alice", f"guess {number}"))
            until(
                lambda: running.connections(Phase.ANSWERING) + running.statistics().password_checks > len(clients),
                "that it waits",
            )
        answered = [False]
        while not all(answered):
            # The last one is looked at first: if it has its answer, all before must have theirs.
            answered = [bool(select.select([client], [], [], 0)[0]) for client in reversed(clients)][::-1]
            assert answered == sorted(answered, reverse=True)
            time.sleep(0.01)
        assert statuses(clients) == [401] * 12


def test_who_hangs_up_is_forgotten_and_its_password_checked(web_file: WebFile) -> None:
    dear = bcrypt.hashpw(b"secret", bcrypt.gensalt(13)).decode()
    with running_server(config_file=web_file(users(("alice", dear)))) as running:
        held = ask(running, "alice", "guess")
        leaving = [ask(running, "alice", "secret") for _ in range(20)]
        until(lambda: running.statistics().waiting_for_password_check == 21, "that all are waited for")
        for client in leaving:
            client.close()
        until(lambda: running.statistics().waiting_for_password_check <= 1, "the end of all others")
        assert statuses([held]) == [401]
        until(lambda: running.statistics().password_checks == 2, "the check")
        assert fetch(running.port, headers=basic("alice", "secret")).status == 200
        assert running.statistics().password_checks == 2


def test_a_password_that_somebody_else_waits_for_moves_up(web_file: WebFile) -> None:
    dear = bcrypt.hashpw(b"secret", bcrypt.gensalt(11)).decode()
    with running_server(config_file=web_file(users(("alice", dear)))) as running:
        clients = [ask(running, "alice", f"guess {number}", "127.0.0.2") for number in range(20)]
        until(lambda: running.connections(Phase.ANSWERING) == 20, "that the guesses wait")
        pair = [ask(running, "alice", "secret", source) for source in ("127.0.0.2", "127.0.0.3")]
        assert statuses(pair) == [200, 200]
        assert running.statistics().password_checks <= 6
    for client in clients:
        client.close()


def test_an_unknown_user_costs_as_much_as_the_dearest_known_one(web_file: WebFile) -> None:
    dear = bcrypt.hashpw(b"secret", bcrypt.gensalt(11)).decode()
    file = web_file(users(("alice", dear), ("bob", cheap_hash("secret"))))
    with running_server(config_file=file) as running:
        cheap, unknown = (timed(running, name) for name in ("bob", "nobody"))
        assert running.statistics().password_checks == 2
    assert unknown > 5 * cheap  # 2^7 times the rounds


def timed(running: RunningServer, name: str) -> float:
    begun = time.perf_counter()
    assert fetch(running.port, headers=basic(name, "wrong")).status == 401
    return time.perf_counter() - begun


def test_a_client_that_leaves_during_its_check_harms_nobody(web_file: WebFile) -> None:
    with running_server(config_file=web_file(users(("alice", DEAR_HASH)))) as running:
        for number in range(5):
            ask(running, "alice", f"guess {number}").close()
        until(lambda: running.statistics().password_checks == 5, "the checks")
        assert fetch(running.port, headers=basic("alice", "secret")).status == 200
        until(lambda: running.connections() == 0, "the end of all connections")


def test_the_server_ends_while_checks_are_waiting(web_file: WebFile) -> None:
    dear = bcrypt.hashpw(b"secret", bcrypt.gensalt(12)).decode()
    with running_server(config_file=web_file(users(("alice", dear)))) as running:
        clients = [ask(running, "alice", f"guess {number}") for number in range(9)]
        until(lambda: running.connections(Phase.ANSWERING) == 9, "checks")
    assert "bcrypt" not in [thread.name for thread in threading.enumerate()]
    assert statuses(clients) == [429] * 9


@pytest.mark.parametrize(
    ("header", "credentials"),
    [
        ("Basic YTpi", (b"a", b"b")),
        ("basic   YTpi  ", (b"a", b"b")),
        ("Basic Og==", (b"", b"")),
        ("Basic YTpiOmM=", (b"a", b"b:c")),
        ("Basic YQ==", None),
        ("Basic YTpi\xe9", None),
        ("Basic YTp", None),
        ("BasicYTpi", None),
        ("", None),
    ],
)
def test_the_header(header: str, credentials: tuple[bytes, bytes] | None) -> None:
    assert parse_basic(header) == credentials
