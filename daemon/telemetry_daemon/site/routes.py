"""The routes of the site, all rendered from the newest snapshot."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from telemetry_daemon.site.negotiation import BadQueryError, accepts_gzip, choose_format, filter_families
from telemetry_daemon.site.rendered import GzippedBody, LazyBody, PageRenderer, RenderedPages
from telemetry_daemon.state.history import History
from telemetry_daemon.web.messages import Request, Response
from telemetry_exporters.prometheus.families import NO_OWNERS, OwnerSeries
from telemetry_exporters.prometheus.renderer import EOF, Renderer, Syntax
from telemetry_exporters.snapshot_filter import NO_METRICS
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Metric, Snapshot

if TYPE_CHECKING:  # imported at the first request
    from telemetry_daemon.site.peer_pages import PeerPages
    from telemetry_daemon.site.stream import Streams
    from telemetry_daemon.state.flights import FlightFile

HEALTH_PATH = "/healthz"
READY_PATH = "/readyz"
SNAPSHOT_PATH = "/api/v1/snapshot"
HISTORY_PATH = "/api/v1/history"
EVENTS_PATH = "/api/v1/events"
PAGE_PATH = "/"
# This query requests a poll of the expensive counters.
COUNTERS_QUERY = "counters=now"
PEERS_PATH = "/metrics/"

_TEXT = "text/plain; charset=utf-8"
_JSON = "application/json; charset=utf-8"
_HTML = "text/html; charset=utf-8"
_NO_STORE = ("Cache-Control", "no-store")
_NO_SNIFFING = ("X-Content-Type-Options", "nosniff")
_GZIP = ("Content-Encoding", "gzip")
_NO_DEVICE = Response(404, (b"No such device. The page at ./ lists all of them.\n",), _TEXT, (_NO_STORE, _NO_SNIFFING))
_EOF_BY_SYNTAX: Mapping[Syntax, bytes] = {Syntax.TEXT: b"", Syntax.OPENMETRICS: EOF}


@dataclass(frozen=True, slots=True)
class _MetricsPage:
    """A page of metrics. `render` returns its cached part, `tail` its end, which is not cached."""

    cache_key: str
    render: PageRenderer
    tail: Callable[[Syntax], bytes]


class Site:
    """Responds to GET and HEAD requests."""

    def __init__(
        self,
        snapshot: Callable[[], Snapshot],
        readiness: Callable[[], tuple[bool, str]],
        process_metrics: Callable[[Syntax], bytes],
        *,
        telemetry_path: str = "/metrics",
        plugin_metrics: Mapping[str, Metric] = NO_METRICS,
        history: History | None = None,
        instance: str = "",
        owners: OwnerSeries = NO_OWNERS,
        peer_pages: Callable[[], PeerPages] | None = None,
        flights: Callable[[], tuple[FlightFile, ...]] = tuple,
        read_counters: Callable[[], None] = lambda: None,
    ) -> None:
        self._check_readiness = readiness
        self._get_snapshot = snapshot
        self._history = history
        self._instance = instance
        self._process_metrics = process_metrics
        self._plugin_metrics = plugin_metrics
        self._telemetry_path = telemetry_path
        self._renderer = Renderer(plugin_metrics, owners)
        self._rendered = RenderedPages(snapshot)
        self._create_peer_pages = peer_pages
        self._peer_pages: PeerPages | None = None
        self._flights = flights
        self._read_counters = read_counters
        self._loop: asyncio.AbstractEventLoop | None = None
        self._streams: Streams | None = None
        self._routes: Mapping[str, Callable[[Request], Response]] = {
            PAGE_PATH: self._html_page,
            SNAPSHOT_PATH: self._snapshot_document,
            HISTORY_PATH: self._history_document,
            EVENTS_PATH: self._event_stream,
            HEALTH_PATH: _health,
            READY_PATH: self._readiness,
            telemetry_path: self._metrics,
        }

    def enable_stream(self, loop: asyncio.AbstractEventLoop) -> None:
        """Enable the event stream on this event loop."""
        self._loop = loop

    def send_changes(self) -> None:
        """Send changes to the clients of the event stream. Thread-safe."""
        if self._streams is not None:
            self._streams.send_changes()

    def respond(self, request: Request) -> Response:
        """Return the response to a request."""
        route = self._routes.get(request.path)
        if route is None and request.path.startswith(PEERS_PATH):
            return self._peer_page(request)
        return route(request) if route else self._not_found()

    def rebuild_peer_pages(self) -> None:
        """Discard the pages in the format of other exporters. The next request rebuilds them."""
        self._peer_pages = None
        self._rendered.forget()

    def _not_found(self) -> Response:
        return Response(404, (f"Not found. Try one of {', '.join(self._routes)}.\n".encode(),), _TEXT, (_NO_SNIFFING,))

    def _peer_paths(self) -> tuple[str, ...]:
        from telemetry_exporters.prometheus.compat import EXPORTERS

        return () if self._create_peer_pages is None else tuple(PEERS_PATH + name for name in EXPORTERS)

    def _peer_page(self, request: Request) -> Response:
        if self._create_peer_pages is None:
            return self._not_found()
        if self._peer_pages is None:
            self._peer_pages = self._create_peer_pages()
        try:
            cache_key, render = self._peer_pages.page(request.path.removeprefix(PEERS_PATH), request.query)
        except BadQueryError as error:
            return error.response()
        return self._metrics_response(request, _MetricsPage(cache_key, render, lambda _: b""))

    def _readiness(self, request: Request) -> Response:  # noqa: ARG002  # a route takes the request
        is_ready, reason = self._check_readiness()
        return Response(200 if is_ready else 503, (f"{reason}\n".encode(),), _TEXT, (_NO_STORE,))

    def _metrics(self, request: Request) -> Response:
        return self._metrics_response(request, _MetricsPage("", self._renderer.page, self._process_metrics))

    def _metrics_response(self, request: Request, page: _MetricsPage) -> Response:
        syntax, content_type = choose_format(request.headers.get("accept", ""))
        headers: tuple[tuple[str, str], ...] = (("Vary", "Accept, Accept-Encoding"), _NO_SNIFFING)
        tail, eof = page.tail(syntax), _EOF_BY_SYNTAX[syntax]
        requested_names = parse_qs(request.query).get("name[]")
        is_compressed = accepts_gzip(request.headers.get("accept-encoding", ""))
        cache_key = page.cache_key + syntax.value

        def render(snapshot: Snapshot) -> bytes:
            return page.render(snapshot, syntax)

        body: tuple[bytes, ...]
        if requested_names:
            families = filter_families(self._rendered.body(cache_key, render) + tail, requested_names)
            body = GzippedBody(families).with_tail(eof) if is_compressed else (families, eof)
        elif is_compressed:
            body = self._rendered.gzipped(cache_key, render).with_tail(tail + eof)
        else:
            body = (self._rendered.body(cache_key, render), tail, eof)
        return Response(200, body, content_type, (*headers, _GZIP) if is_compressed else headers)

    def _history_document(self, request: Request) -> Response:
        from telemetry_daemon.site.history_routes import history_pieces  # unused if the daemon is only scraped

        if self._history is None:
            return self._not_found()
        try:
            pieces = history_pieces(self._history, self._get_snapshot(), request.query)
        except BadQueryError as error:
            return error.response()
        is_compressed = accepts_gzip(request.headers.get("accept-encoding", ""))
        headers = (_NO_STORE, _NO_SNIFFING, ("Vary", "Accept-Encoding"), *((_GZIP,) if is_compressed else ()))
        return Response(200, (), _JSON, headers, LazyBody(pieces, is_compressed=is_compressed))

    def _event_stream(self, request: Request) -> Response:
        from telemetry_daemon.site.stream import Streams  # unused if the daemon is only scraped

        if self._history is None or self._loop is None:
            return self._not_found()
        if self._streams is None:
            self._streams = Streams(self._loop, self._get_snapshot, self._history, self._instance)
        return self._streams.follow(request)

    def _snapshot_document(self, request: Request) -> Response:
        if request.query == COUNTERS_QUERY:
            self._read_counters()
        elif request.query:
            return self._selected_devices_response(request)
        from telemetry_exporters.documents import snapshot_json  # unused if the daemon is only scraped

        return self._cached(
            request, "json", lambda snapshot: snapshot_json.render(snapshot, self._plugin_metrics).encode(), _JSON, ()
        )

    def _selected_devices_response(self, request: Request) -> Response:
        from telemetry_daemon.site.history_routes import selected_snapshot  # unused if the daemon is only scraped

        try:
            body = selected_snapshot(self._get_snapshot(), request.query, self._plugin_metrics)
        except BadQueryError as error:
            return error.response()
        return Response(200, (body,), _JSON, (_NO_STORE, _NO_SNIFFING))

    def _html_page(self, request: Request) -> Response:
        # Only browsers need these modules, which take 0.3 MiB.
        from telemetry_daemon.site.page_files import PAGE_POLICY
        from telemetry_daemon.site.pages import Links, device_page, page

        headers = (("Content-Security-Policy", PAGE_POLICY), ("Referrer-Policy", "no-referrer"))
        paths = (self._telemetry_path, SNAPSHOT_PATH, HISTORY_PATH, HEALTH_PATH, READY_PATH)
        links = Links(*paths, self._peer_paths(), self._flights())
        metrics = self._plugin_metrics
        for device_id in parse_qs(request.query).get("device", ())[:1]:
            html = device_page(self._get_snapshot(), device_id, links, metrics)
            return Response(200, (html.encode(),), _HTML, (*headers, _NO_STORE, _NO_SNIFFING)) if html else _NO_DEVICE
        return self._cached(request, "html", lambda snapshot: page(snapshot, links, metrics).encode(), _HTML, headers)

    def _cached(
        self,
        request: Request,
        name: str,
        render: Callable[[Snapshot], bytes],
        content_type: str,
        headers: tuple[tuple[str, str], ...],
    ) -> Response:
        headers = (*headers, _NO_STORE, _NO_SNIFFING, ("Vary", "Accept-Encoding"))
        if accepts_gzip(request.headers.get("accept-encoding", "")):
            body = self._rendered.gzipped(name, render).with_tail(b"")
            return Response(200, body, content_type, (*headers, _GZIP))
        return Response(200, (self._rendered.body(name, render),), content_type, headers)


def _health(request: Request) -> Response:  # noqa: ARG001  # a route takes the request
    return Response(200, (b"ok\n",), _TEXT, (_NO_STORE,))
