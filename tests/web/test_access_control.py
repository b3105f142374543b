"""The web configuration in force: headers, rate limit, and files that change while the server runs."""

import contextlib
import http.client
import logging
import ssl
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from kits.waiting import until
from kits.web_server import (
    LOOPBACK,
    Pki,
    Reply,
    RunningServer,
    basic,
    cheap_hash,
    connect,
    fetch,
    replace,
    running_server,
)
from telemetry_daemon.web import clients
from telemetry_daemon.web.access import access_control
from telemetry_daemon.web.access.access_control import AccessControl, load_config
from telemetry_daemon.web.addresses import WebConfigError
from telemetry_daemon.web.clients import MAX_CLIENTS, Caller, ClientBuckets, RateLimits, TokenBucket
from telemetry_daemon.web.messages import Request, Response
from web.scraper import Scraper

WebFile = Callable[[str], Path]
HEADERS = """\
http_server_config:
  headers:
    X-Frame-Options: deny
    Content-Security-Policy: default-src 'none'
"""


def user(name: str, password: str) -> str:
    return f"basic_auth_users:\n  {name}: {cheap_hash(password)}\n"


def test_headers_are_on_every_answer_once(web_file: WebFile) -> None:
    def site(request: object) -> Response:
        return Response(200, (b"ok",), headers=(("content-security-policy", "default-src 'self'"), ("Vary", "Accept")))

    with running_server(site, config_file=web_file(HEADERS + user("alice", "secret"))) as running:
        for headers, status in (({}, 401), (basic("alice", "secret"), 200)):
            reply = fetch(running.port, headers=headers)
            assert reply.status == status
            assert reply.headers["x-frame-options"] == "deny"
            assert reply.headers["content-security-policy"] == "default-src 'none'"
        assert reply.headers["vary"] == "Accept"
        assert fetch(running.port, method="POST").headers["x-frame-options"] == "deny"


def test_rate_limit_is_per_client_address(web_file: WebFile) -> None:
    with running_server(config_file=web_file("rate_limit: {interval: 1h, burst: 3}\n")) as running:
        for source in ("127.0.0.2", "127.0.0.3"):
            assert [fetch(running.port, source=source).status for _ in range(4)] == [200, 200, 200, 429]


def test_ports_that_share_limits_count_a_client_together(web_file: WebFile) -> None:
    rules, limits = load_config(str(web_file("rate_limit: {interval: 1h, burst: 3}\n"))), RateLimits()
    ports = [AccessControl(rules, limits) for _ in range(2)]
    refusals: list[Response | None] = []
    for port in ports * 2:
        port.decide(Request("GET", "/metrics"), Caller("10.0.0.7", ()), refusals.append)
    assert [refusal and refusal.status for refusal in refusals] == [None, None, None, 429]


def test_requests_without_a_login_do_not_use_up_the_limit_of_a_user_at_the_same_address(web_file: WebFile) -> None:
    file = web_file("rate_limit: {interval: 1h, burst: 3}\n" + user("alice", "secret"))
    with running_server(config_file=file) as running:
        assert fetch(running.port, headers=basic("alice", "secret")).status == 200
        assert [fetch(running.port).status for _ in range(4)] == [401, 401, 429, 429]
        assert fetch(running.port, headers=basic("alice", "guess")).status == 429  # a wrong password is no login
        replies = [fetch(running.port, headers=basic("alice", "secret")).status for _ in range(4)]
        assert replies == [200, 200, 200, 429]
        assert running.statistics().password_checks == 1


def test_clients_beyond_the_bound_are_forgotten_the_longest_unheard_first() -> None:
    buckets = ClientBuckets(3600.0, 1)
    assert buckets.for_client("first").allow(1.0)
    assert buckets.for_client("second").allow(1.0)
    for number in range(MAX_CLIENTS - 1):
        assert not buckets.for_client("first").allow(2.0)
        buckets.for_client(number)
    assert not buckets.for_client("first").allow(3.0)
    assert buckets.for_client("second").allow(3.0)


def test_the_bucket_fills_again_one_at_a_time_and_never_over_its_size() -> None:
    bucket = TokenBucket(2.0, 3)
    assert [bucket.allow(100.0) for _ in range(4)] == [True, True, True, False]
    assert [bucket.allow(moment) for moment in (101.0, 102.0, 102.0, 104.0)] == [False, True, False, True]
    assert [bucket.allow(1000.0) for _ in range(4)] == [True, True, True, False]


def serial(running: RunningServer, context: ssl.SSLContext) -> str:
    with connect(running.port) as plain, context.wrap_socket(plain, server_hostname="localhost") as client:
        certificate = client.getpeercert()
        assert certificate is not None
        return str(certificate["serialNumber"])


def test_certificates_are_renewed_under_load_without_a_failed_scrape(
    pki: Pki, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    pairs = [pki.server, *pki.renewed]
    certificate, key, file = tmp_path / "s.crt", tmp_path / "s.key", tmp_path / "web.yml"
    ca = pki.authority.certificate
    file.write_text(
        "tls_server_config: {cert_file: s.crt, key_file: s.key, "
        f"client_auth_type: RequireAndVerifyClientCert, client_ca_file: {ca}}}\n"
    )
    replace(certificate, pairs[0].certificate.read_bytes())
    replace(key, pairs[0].key.read_bytes())
    seen = set()
    with running_server(config_file=file) as running, contextlib.ExitStack() as stack:
        tls = pki.trusting(pki.client)
        scrapers = [stack.enter_context(Scraper(running.port, tls)) for _ in range(2)]
        for pair in pairs:
            replace(key, pair.key.read_bytes())
            replace(certificate, pair.certificate.read_bytes())
            until(lambda: not seen.issuperset({serial(running, tls)}), "the new certificate")
            seen.add(serial(running, tls))
    answers = sum((scraper.statuses for scraper in scrapers), Counter())
    record_property("scrapes_during_renewals", answers.total())
    print(answers)
    assert set(answers) == {200}
    assert len(seen) == len(pairs)


def test_users_and_headers_change_also_for_open_connections(web_file: WebFile) -> None:
    file = web_file(user("alice", "secret"))
    with running_server(config_file=file) as running:
        kept = http.client.HTTPConnection("127.0.0.1", running.port, timeout=60)

        def ask() -> Reply:
            kept.request("GET", "/", headers=basic("alice", "secret"))
            answer = kept.getresponse()
            return Reply(answer.status, answer.read(), dict(answer.getheaders()))

        assert ask().status == 200
        replace(file, HEADERS + user("bob", "secret"))
        until(lambda: ask().status == 401, "alice is out")
        assert ask().headers["X-Frame-Options"] == "deny"
        assert fetch(running.port, headers=basic("bob", "secret")).status == 200
        kept.close()


@pytest.mark.parametrize("harm", ["unknown_key: 1\n", "tls_server_config: {cert_file: none, key_file: none}\n", None])
def test_a_file_that_becomes_bad_stops_everything_until_it_is_mended(
    web_file: WebFile, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, harm: str | None
) -> None:
    loads: list[str] = []
    monkeypatch.setattr(access_control, "load_config", lambda file: loads.append(file) or load_config(file))
    good = user("alice", "secret")
    file = web_file(good)
    with running_server(config_file=file) as running, caplog.at_level(logging.INFO):
        assert fetch(running.port, headers=basic("alice", "secret")).status == 200
        if harm is None:
            file.unlink()
        else:
            replace(file, good + harm)
        until(lambda: fetch(running.port, headers=basic("alice", "secret")).status == 500, "the refusal")
        looks = len(loads)
        until(
            lambda: fetch(running.port, headers=basic("alice", "secret")).status != 500 or len(loads) > looks, "a look"
        )
        assert fetch(running.port, headers=basic("alice", "secret")).status == 500
        replace(file, good)
        until(lambda: fetch(running.port, headers=basic("alice", "secret")).status == 200, "the good file")
    complaints = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(complaints) == 1
    assert complaints[0].getMessage().startswith(str(file.parent))
    assert "is valid again" in caplog.text


def test_bad_new_certificate_is_reported_over_the_old_one(pki: Pki, tmp_path: Path) -> None:
    certificate, file = tmp_path / "s.crt", tmp_path / "web.yml"
    certificate.write_bytes(pki.server.certificate.read_bytes())
    file.write_text(f"tls_server_config: {{cert_file: s.crt, key_file: {pki.server.key}}}\n")
    with running_server(config_file=file) as running:
        assert fetch(running.port, tls=pki.trusting()).status == 200
        replace(certificate, pki.client.certificate.read_bytes())  # not of this key
        until(lambda: fetch(running.port, tls=pki.trusting()).status == 500, "the refusal")
        replace(certificate, pki.server.certificate.read_bytes())
        until(lambda: fetch(running.port, tls=pki.trusting()).status == 200, "the good certificate")


def test_stricter_rules_apply_to_open_connections(pki: Pki, tmp_path: Path) -> None:
    file = tmp_path / "web.yml"
    file.write_text("")
    strict = ("client_auth_type: RequireAndVerifyClientCert", f"client_ca_file: {pki.authority.certificate}")
    with running_server(config_file=file) as running, connect(running.port) as plain:
        request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
        plain.sendall(request)
        assert plain.recv(65536).startswith(b"HTTP/1.1 200")
        replace(file, pki.tls_section())
        until(lambda: refused(running, None), "TLS")
        plain.sendall(request)
        assert hung_up(plain)
        uncertified = http.client.HTTPSConnection("127.0.0.1", running.port, timeout=60, context=pki.trusting())
        uncertified.request("GET", "/")
        assert uncertified.getresponse().read() == b"GET /?\n"
        replace(file, pki.tls_section(*strict))
        until(lambda: refused(running, pki.trusting()), "client certificates")
        uncertified.sock.sendall(request)
        assert hung_up(uncertified.sock)
        uncertified.close()
        assert fetch(running.port, tls=pki.trusting(pki.client)).status == 200


def refused(running: RunningServer, context: ssl.SSLContext | None) -> bool:
    try:
        return fetch(running.port, tls=context).status != 200
    except (OSError, http.client.HTTPException):  # hanging up is refusing, too
        return True


def hung_up(client: object) -> bool:
    with contextlib.suppress(ConnectionResetError):  # a reset is hanging up, too
        return client.recv(65536) == b""  # type: ignore[attr-defined]  # plain and TLS sockets alike
    return True


def test_a_reload_takes_another_file_at_once_and_a_bad_one_not_at_all(web_file: WebFile, tmp_path: Path) -> None:
    other = tmp_path / "other.yml"
    other.write_text(user("alice", "secret"))
    with running_server() as running:
        assert fetch(running.port).status == 200
        running.call(running.server.reconfigure((LOOPBACK,), str(other)))
        assert fetch(running.port).status == 401
        with pytest.raises(WebConfigError, match="unknown key"):
            running.call(running.server.reconfigure((LOOPBACK,), str(web_file("unknown: 1\n"))))
        assert fetch(running.port).status == 401
        assert fetch(running.port, headers=basic("alice", "secret")).status == 200
        running.call(running.server.reconfigure((LOOPBACK,), ""))
        assert fetch(running.port).status == 200


def test_a_file_that_names_itself_or_one_file_twice_is_read_once_more_and_not_for_ever(
    pki: Pki, web_file: WebFile
) -> None:
    file = web_file("tls_server_config: {cert_file: web.yml, key_file: web.yml}\n")
    with pytest.raises(WebConfigError, match="cannot be used"):
        load_config(str(file))
    both = file.with_name("both.pem")
    both.write_bytes(pki.server.certificate.read_bytes() + pki.server.key.read_bytes())
    file.write_text("tls_server_config: {cert_file: both.pem, key_file: both.pem}\n")
    assert load_config(str(file)).watch.files == (str(file), str(both))


def test_sessions_of_clients_without_tickets_do_not_pile_up(
    pki: Pki, web_file: WebFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("telemetry_daemon.web.access.access_control.MAX_TLS_SESSIONS", 4)
    context = pki.trusting()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_TICKET

    def session(previous: ssl.SSLSession | None = None) -> tuple[ssl.SSLSession | None, bool]:
        with connect(running.port) as plain:
            client = context.wrap_socket(plain, server_hostname="localhost", session=previous)
            with client:
                client.sendall(b"GET / HTTP/1.0\r\n\r\n")
                assert client.recv(65536).startswith(b"HTTP/1.1 200")
                return client.session, bool(client.session_reused)

    with running_server(config_file=web_file(pki.tls_section())) as running:
        first, _ = session()
        assert session(first)[1]
        for _ in range(5):
            session()
        until(lambda: not session(first)[1], "that the first session is forgotten")


def test_a_watch_sees_every_kind_of_change_half_a_second_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.write_text("one")
    age = 0
    monkeypatch.setattr(access_control, "time", SimpleNamespace(time_ns=lambda: changed_at(tmp_path) + age))
    changes: list[Callable[[], object]] = [
        lambda: file.write_text("two"),
        lambda: replace(file, "two"),
        file.unlink,
        lambda: file.write_text("two"),
        lambda: file.chmod(0o600),
    ]
    for change in changes:
        seen = access_control.FileWatch((str(file),))
        age = 10**9
        assert not seen.has_changed()
        time.sleep(0.02)  # file times have a coarse resolution
        change()
        if file.exists():
            age = 499_000_000
            assert not seen.has_changed(), "it may still be being written"
        age = 501_000_000
        assert seen.has_changed()


def changed_at(folder: Path) -> int:
    return max(file.stat().st_ctime_ns for file in (folder, *folder.iterdir()))


def test_log_line_counts_those_left_out_since_the_last(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(clients, "time", SimpleNamespace(monotonic=lambda: now))
    seldom = clients.RateLimitedLogger(logging.getLogger("test.seldom"))
    for number in range(5):
        seldom.warning("event %d", number)
    for number in (5, 6):
        now += 59.9
        seldom.warning("left out")
        now += 0.1
        seldom.warning("event %d", number)
    assert [record.getMessage() for record in caplog.records] == [
        "event 0",
        "event 5 (and 5 more since the last warning)",
        "event 6 (and 1 more since the last warning)",
    ]
