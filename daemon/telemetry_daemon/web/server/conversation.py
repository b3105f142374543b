"""HTTP on one connection: bytes to requests, responses to bytes. No sockets here."""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from urllib.parse import unquote

import h11

from telemetry_daemon.web.messages import Request, Response, status_page
from telemetry_parsers.dataclass import dataclass

HEAD_LIMIT_BYTES = 16384
SERVED_METHODS = frozenset({"GET", "HEAD"})
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_NEVER_WITH_BODY = frozenset({204, 304})

Headers = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Refusal:
    """The response to a request that the site does not see; `final` ends the connection."""

    response: Response
    final: bool


class ClientLeft(Exception):  # noqa: N818  # not an error, but the usual end of a connection
    """The client sends nothing more."""


class Conversation:
    """One client's requests, one at a time: `next_request`, `answer`, `go_on`, and again."""

    def __init__(self) -> None:
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_LIMIT_BYTES)
        self._without_body = False

    def receive(self, data: bytes) -> None:
        """Accept received bytes; empty bytes are the end of file."""
        self._http.receive_data(data)

    @property
    def holds_input(self) -> bool:
        """Return whether there are bytes that belong to no request yet."""
        return bool(self._http.trailing_data[0])

    def next_request(self) -> Request | Refusal | None:
        """Return the next request or its refusal, or None while its head is incomplete. Raises ClientLeft at the end."""
        try:
            event = self._http.next_event()
            if isinstance(event, h11.ConnectionClosed):
                raise ClientLeft
            if not isinstance(event, h11.Request):
                return None
            self._without_body = event.method == b"HEAD"
            request = _request_of(event)
            if isinstance(request, Request) or not request.final:
                self._http.next_event()  # the end of a message without a body
        except h11.RemoteProtocolError as error:
            return Refusal(status_page(error.error_status_hint), final=True)
        return request

    def answer(self, response: Response, extra: Headers = (), *, final: bool = False) -> list[bytes]:
        """Return the bytes of a response, or of its beginning if pieces follow. Raises ValueError for an invalid header."""
        try:
            head = h11.Response(
                status_code=response.status,
                reason=response.phrase.encode(),
                headers=_headers(response, extra, final=final),
            )
        except h11.LocalProtocolError as error:
            raise ValueError(str(error)) from error
        parts = [self._http.send(head)]
        if not (self._without_body or response.status in _NEVER_WITH_BODY):
            for part in response.body:
                parts.extend(self._http.send_with_data_passthrough(h11.Data(data=part)) or ())
        if response.pieces is None or self._without_body:
            parts.append(self.end())
        return [part for part in parts if part]

    def piece(self, piece: bytes) -> bytes:
        """Return the bytes of one more piece of the body."""
        return self._http.send(h11.Data(data=piece)) or b""

    def end(self) -> bytes:
        """Return the bytes that end the body."""
        return self._http.send(h11.EndOfMessage()) or b""

    @property
    def is_whole(self) -> bool:
        """Return whether the response is complete."""
        return self._http.our_state is not h11.SEND_BODY

    def go_on(self) -> bool:
        """Prepare for the next request, or return False if the connection has to end."""
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
            self._without_body = False
            return True
        return False


def _request_of(event: h11.Request) -> Request | Refusal:
    if not event.http_version.startswith(b"1."):
        return Refusal(status_page(505), final=True)
    headers = _joined_headers(event)
    if len(event.target) + sum(len(name) + len(value) for name, value in headers.items()) > HEAD_LIMIT_BYTES:
        return Refusal(status_page(431), final=True)
    has_body = "transfer-encoding" in headers or headers.get("content-length", "0").strip("0") != ""
    method = event.method.decode("ascii")
    if method not in SERVED_METHODS:
        return Refusal(status_page(405, (("Allow", "GET, HEAD"),)), final=has_body)
    if has_body:
        return Refusal(status_page(413), final=True)
    target = _split_target(event.target.decode("ascii"))
    if target is None:
        return Refusal(status_page(400), final=True)
    authority, path, query = target
    return Request(method, path, query, headers, authority or headers.get("host", ""))


def _joined_headers(event: h11.Request) -> dict[str, str]:
    headers: dict[str, str] = {}
    for raw_name, raw_value in event.headers:
        name, value = raw_name.decode("ascii"), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _split_target(target: str) -> tuple[str, str, str] | None:
    """Return authority, decoded path and query of a request target, which may be a URL as proxies send it."""
    authority = ""
    if not target.startswith("/"):
        scheme, separator, rest = target.partition("://")
        if not separator or scheme.lower() not in {"http", "https"}:
            return None
        slash = min((at for at in (rest.find("/"), rest.find("?")) if at >= 0), default=len(rest))
        authority = rest[:slash].rpartition("@")[2]
        if not authority:
            return None
        target = rest[slash:] if rest[slash : slash + 1] == "/" else f"/{rest[slash:]}"
    path, _, query = target.partition("?")
    return authority, unquote(path), query


def _headers(response: Response, extra: Headers, *, final: bool) -> list[tuple[str, str]]:
    """Return all headers of a response; headers in `extra` replace others of the same name."""
    replaced = {name.lower() for name, _ in extra}
    headers = [("Date", _date(int(time.time())))]
    if response.status not in _NEVER_WITH_BODY:
        headers.append(("Content-Type", response.content_type))
        if response.pieces is None:
            headers.append(("Content-Length", str(sum(map(len, response.body)))))
    headers.extend(pair for pair in response.headers if pair[0].lower() not in replaced)
    headers.extend(extra)
    if final:
        headers.append(("Connection", "close"))
    return headers


@functools.lru_cache(maxsize=1)
def _date(second: int) -> str:
    """Return a time as HTTP writes it, in English for every locale."""
    when = time.gmtime(second)
    day, month = _DAYS[when.tm_wday], _MONTHS[when.tm_mon - 1]
    return f"{day}, {when.tm_mday:02} {month} {when.tm_year} {time.strftime('%H:%M:%S', when)} GMT"
