"""HTTP on one connection, without sockets."""

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
_STATUSES_WITHOUT_BODY = frozenset({204, 304})

Headers = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Refusal:
    """The response to an invalid request. If `is_final`, the connection is closed afterwards."""

    response: Response
    is_final: bool


class ClientLeft(Exception):  # noqa: N818  # not an error, but the usual end of a connection
    """The client has closed its sending side."""


class HttpConversation:
    """The requests and responses on one connection."""

    def __init__(self) -> None:
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_LIMIT_BYTES)
        self._is_head_request = False

    def receive(self, data: bytes) -> None:
        """Accept received bytes, or b"" at the end of the input."""
        self._http.receive_data(data)

    @property
    def has_input(self) -> bool:
        """Return whether unprocessed bytes are waiting."""
        return bool(self._http.trailing_data[0])

    def next_request(self) -> Request | Refusal | None:
        """Return the next request, a Refusal if it is invalid, or None if it is incomplete. Raise ClientLeft at EOF."""
        try:
            event = self._http.next_event()
            if isinstance(event, h11.ConnectionClosed):
                raise ClientLeft
            if not isinstance(event, h11.Request):
                return None
            self._is_head_request = event.method == b"HEAD"
            request = _check_request(event)
            if isinstance(request, Request) or not request.is_final:
                self._http.next_event()  # the request has no body, so the next event is its end
        except h11.RemoteProtocolError as error:
            return Refusal(status_page(error.error_status_hint), is_final=True)
        return request

    def encode(self, response: Response, extra_headers: Headers = (), *, is_final: bool = False) -> list[bytes]:
        """Return the bytes of a response, without `pieces`. Raise ValueError if a header is invalid."""
        try:
            head = h11.Response(
                status_code=response.status,
                reason=response.phrase.encode(),
                headers=_response_headers(response, extra_headers, is_final=is_final),
            )
        except h11.LocalProtocolError as error:
            raise ValueError(str(error)) from error
        parts = [self._http.send(head)]
        if not (self._is_head_request or response.status in _STATUSES_WITHOUT_BODY):
            for part in response.body:
                parts.extend(self._http.send_with_data_passthrough(h11.Data(data=part)) or ())
        if response.pieces is None or self._is_head_request:
            parts.append(self.encode_end())
        return [part for part in parts if part]

    def encode_piece(self, piece: bytes) -> bytes:
        """Encode a piece of the body for sending."""
        return self._http.send(h11.Data(data=piece)) or b""

    def encode_end(self) -> bytes:
        """Return the bytes that end the body."""
        return self._http.send(h11.EndOfMessage()) or b""

    @property
    def is_complete(self) -> bool:
        """Return whether the response has been encoded to its end."""
        return self._http.our_state is not h11.SEND_BODY

    def prepare_next(self) -> bool:
        """Prepare for the next request. Return False if the connection must be closed."""
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
            self._is_head_request = False
            return True
        return False


def _check_request(event: h11.Request) -> Request | Refusal:
    if not event.http_version.startswith(b"1."):
        return Refusal(status_page(505), is_final=True)
    headers = _join_headers(event)
    if len(event.target) + sum(len(name) + len(value) for name, value in headers.items()) > HEAD_LIMIT_BYTES:
        return Refusal(status_page(431), is_final=True)
    has_body = "transfer-encoding" in headers or headers.get("content-length", "0").strip("0") != ""
    method = event.method.decode("ascii")
    if method not in SERVED_METHODS:
        return Refusal(status_page(405, (("Allow", "GET, HEAD"),)), is_final=has_body)
    if has_body:
        return Refusal(status_page(413), is_final=True)
    target = _split_target(event.target.decode("ascii"))
    if target is None:
        return Refusal(status_page(400), is_final=True)
    authority, path, query = target
    return Request(method, path, query, headers, authority or headers.get("host", ""))


def _join_headers(event: h11.Request) -> dict[str, str]:
    headers: dict[str, str] = {}
    for raw_name, raw_value in event.headers:
        name, value = raw_name.decode("ascii"), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _split_target(target: str) -> tuple[str, str, str] | None:
    """Return (authority, decoded path, query) of a path or full URL, or None if the URL is invalid."""
    authority = ""
    if not target.startswith("/"):
        scheme, separator, remainder = target.partition("://")
        if not separator or scheme.lower() not in {"http", "https"}:
            return None
        path_start = min((offset for offset in map(remainder.find, "/?") if offset >= 0), default=len(remainder))
        authority = remainder[:path_start].rpartition("@")[2]
        if not authority:
            return None
        target = remainder[path_start:] if remainder[path_start:].startswith("/") else f"/{remainder[path_start:]}"
    path, _, query = target.partition("?")
    return authority, unquote(path), query


def _response_headers(response: Response, extra_headers: Headers, *, is_final: bool) -> list[tuple[str, str]]:
    """Return a response's headers. Extra headers replace headers of the same name."""
    replaced_names = {name.lower() for name, _ in extra_headers}
    headers = [("Date", _format_date(int(time.time())))]
    if response.status not in _STATUSES_WITHOUT_BODY:
        headers.append(("Content-Type", response.content_type))
        if response.pieces is None:
            headers.append(("Content-Length", str(sum(map(len, response.body)))))
    headers.extend(pair for pair in response.headers if pair[0].lower() not in replaced_names)
    headers.extend(extra_headers)
    if is_final:
        headers.append(("Connection", "close"))
    return headers


@functools.lru_cache(maxsize=1)
def _format_date(second: int) -> str:
    """Format a Unix time as HTTP requires, in English for every locale."""
    time_tuple = time.gmtime(second)
    day, month = _DAYS[time_tuple.tm_wday], _MONTHS[time_tuple.tm_mon - 1]
    return f"{day}, {time_tuple.tm_mday:02} {month} {time_tuple.tm_year} {time.strftime('%H:%M:%S', time_tuple)} GMT"
