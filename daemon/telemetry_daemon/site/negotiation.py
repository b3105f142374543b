"""Content negotiation (RFC 9110, sections 12.4 and 12.5), filtering of metric families, and errors in queries."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import lru_cache

from telemetry_daemon.web.messages import Response
from telemetry_exporters.prometheus.renderer import Syntax
from telemetry_exporters.text import clean, cut
from telemetry_parsers.dataclass import dataclass

_CHARSET = "charset=utf-8"
_MAX_ELEMENTS = 32
# The cache is small, because a header may be as long as a request.
_cache_by_header = lru_cache(maxsize=8)
# Metric names need no escaping, so all escaping schemes give the same page.
_ESCAPINGS = ("allow-utf-8", "underscores")
_FAMILY_START = b"# HELP "
_MAX_QUOTED_LENGTH = 80


@dataclass(frozen=True, slots=True)
class Offer:
    """A content type in which metrics are available."""

    media_type: str
    version: str
    syntax: Syntax
    has_escaping: bool = False


# The first offer is the default, because every client can read it.
OFFERS = (
    Offer("text/plain", "0.0.4", Syntax.TEXT),
    Offer("application/openmetrics-text", "1.0.0", Syntax.OPENMETRICS, has_escaping=True),
    Offer("application/openmetrics-text", "0.0.1", Syntax.OPENMETRICS),
    Offer("text/plain", "1.0.0", Syntax.TEXT, has_escaping=True),
)


@dataclass(frozen=True, slots=True)
class _MediaRange:
    """An element of an Accept header."""

    media_type: str
    parameters: dict[str, str]
    quality: float
    index: int

    def specificity(self, offer: Offer) -> int:
        """Return how exactly the element matches this offer, from 0 (not at all) to 4."""
        version = self.parameters.get("version")
        if self.media_type == offer.media_type:
            if version is None:
                return 3
            return 4 if version == offer.version else 0
        if self.media_type == offer.media_type.partition("/")[0] + "/*":
            return 2
        return 1 if self.media_type == "*/*" else 0


@_cache_by_header
def choose_format(accept: str) -> tuple[Syntax, str]:
    """Return the syntax and content type of the response, by default plain text."""
    ranges = [_MediaRange(*element, index) for index, element in enumerate(_header_elements(accept))]
    accepted = [(offer, best) for offer in OFFERS if (best := _most_specific(offer, ranges)) and best.quality > 0]
    if not accepted:
        return OFFERS[0].syntax, _content_type(OFFERS[0], "")
    # Offers are ordered by quality, position in the header, and position in OFFERS.
    offer, best = min(accepted, key=lambda pair: (-pair[1].quality, pair[1].index))
    return offer.syntax, _content_type(offer, best.parameters.get("escaping", ""))


def _most_specific(offer: Offer, ranges: list[_MediaRange]) -> _MediaRange | None:
    """Return the element that matches this offer most exactly, or None if no element matches."""
    best = max(ranges, key=lambda element: element.specificity(offer), default=None)
    return best if best is not None and best.specificity(offer) else None


def _content_type(offer: Offer, escaping: str) -> str:
    text = f"{offer.media_type}; version={offer.version}; {_CHARSET}"
    if not offer.has_escaping:
        return text
    return f"{text}; escaping={escaping if escaping in _ESCAPINGS else 'underscores'}"


def _header_elements(header: str) -> Iterator[tuple[str, dict[str, str], float]]:
    for element in header.split(",", _MAX_ELEMENTS)[:_MAX_ELEMENTS]:
        name, *options = (part.strip() for part in element.split(";"))
        pairs = (part.partition("=") for part in options)
        parameters = {key.strip().lower(): value.strip().strip('"') for key, _, value in pairs}
        if name:
            yield name.lower(), parameters, _parse_quality(parameters.pop("q", "1"))


def _parse_quality(text: str) -> float:
    try:
        value = float(text)
    except ValueError:  # an invalid quality counts as not accepted
        return 0.0
    return value if 0.0 <= value <= 1.0 else 0.0


@_cache_by_header
def accepts_gzip(accept_encoding: str) -> bool:
    """Return whether to compress responses to this client."""
    qualities = {name: quality for name, _, quality in _header_elements(accept_encoding)}
    gzip = qualities.get("gzip", qualities.get("x-gzip", qualities.get("*", 0.0)))
    return gzip > 0 and gzip >= qualities.get("identity", 0.0)


def filter_families(page: bytes, requested_names: Collection[str]) -> bytes:
    """Return the metric families that have a requested name, or whose samples have one."""
    requested = {name.encode("utf-8", "replace") for name in requested_names}
    _, *families = (b"\n" + page).split(b"\n" + _FAMILY_START)
    parts = [_FAMILY_START + family.removesuffix(b"\n") + b"\n" for family in families if requested & _names_in(family)]
    return b"".join(parts)


def _names_in(family: bytes) -> set[bytes]:
    name = family.split(b" ", 1)[0]
    sample = next((line for line in family.split(b"\n")[1:] if line and not line.startswith(b"#")), b"")
    return {name, sample.split(b"{", 1)[0].split(b" ", 1)[0]}


class BadQueryError(Exception):
    """A query that the site rejects, and the HTTP status of the response."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status

    def response(self) -> Response:
        """Return the response that reports the error."""
        return Response(self.status, (f"{self}\n".encode(),), headers=(("X-Content-Type-Options", "nosniff"),))


def quoted(text: str) -> str:
    """Return text from the client in quotes, shortened and without control characters."""
    return f"'{cut(clean(text), _MAX_QUOTED_LENGTH)}'"
