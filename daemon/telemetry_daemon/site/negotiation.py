"""Content negotiation (RFC 9110, sections 12.4 and 12.5), the selection of families, and the refusal of a bad query."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import lru_cache

from telemetry_daemon.web.messages import Response
from telemetry_exporters.prometheus.renderer import Syntax
from telemetry_exporters.text import clean, cut
from telemetry_parsers.dataclass import dataclass

_CHARSET = "charset=utf-8"
_MOST_ELEMENTS = 32
# A scraper sends the same header each time. Only a few are cached, because each may be as long as a request's head.
_for_the_same_header = lru_cache(maxsize=8)
# Escapings of names with characters outside [a-zA-Z0-9_:]. There are no such names, so all give the same page.
_ESCAPINGS = ("allow-utf-8", "underscores")
_FAMILY = b"# HELP "
_MOST_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Offer:
    """A content type for a page of metrics."""

    media_type: str
    version: str
    syntax: Syntax
    names_escaping: bool = False


# The first is for clients without a preference, because every client can read it.
OFFERS = (
    Offer("text/plain", "0.0.4", Syntax.TEXT),
    Offer("application/openmetrics-text", "1.0.0", Syntax.OPENMETRICS, names_escaping=True),
    Offer("application/openmetrics-text", "0.0.1", Syntax.OPENMETRICS),
    Offer("text/plain", "1.0.0", Syntax.TEXT, names_escaping=True),
)


@dataclass(frozen=True, slots=True)
class _Range:
    """One element of an Accept header: the matching types, and the client's preference."""

    media_type: str
    parameters: dict[str, str]
    quality: float
    index: int

    def specificity(self, offer: Offer) -> int:
        """Return how exactly the element names this offer; 0 if it does not match."""
        version = self.parameters.get("version")
        if self.media_type == offer.media_type:
            if version is None:
                return 3
            return 4 if version == offer.version else 0
        if self.media_type == offer.media_type.partition("/")[0] + "/*":
            return 2
        return 1 if self.media_type == "*/*" else 0


@_for_the_same_header
def choose(accept: str) -> tuple[Syntax, str]:
    """Return the syntax of the answer and its content type; plain text if the client accepts none of ours."""
    ranges = [_Range(*element, index) for index, element in enumerate(_elements(accept))]
    accepted = [(offer, closest) for offer in OFFERS if (closest := _closest(offer, ranges)) and closest.quality > 0]
    if not accepted:
        return OFFERS[0].syntax, _content_type(OFFERS[0], "")
    # The highest quality wins, then the client's order, then the order of OFFERS.
    offer, closest = min(accepted, key=lambda pair: (-pair[1].quality, pair[1].index))
    return offer.syntax, _content_type(offer, closest.parameters.get("escaping", ""))


def _closest(offer: Offer, ranges: list[_Range]) -> _Range | None:
    """Return the element that names this offer most exactly. Other elements do not count."""
    closest = max(ranges, key=lambda element: element.specificity(offer), default=None)
    return closest if closest is not None and closest.specificity(offer) else None


def _content_type(offer: Offer, escaping: str) -> str:
    text = f"{offer.media_type}; version={offer.version}; {_CHARSET}"
    if not offer.names_escaping:
        return text
    return f"{text}; escaping={escaping if escaping in _ESCAPINGS else 'underscores'}"


def _elements(header: str) -> Iterator[tuple[str, dict[str, str], float]]:
    """Yield the first 32 elements of a list: name, parameters, quality."""
    for element in header.split(",", _MOST_ELEMENTS)[:_MOST_ELEMENTS]:
        name, *options = (part.strip() for part in element.split(";"))
        pairs = (part.partition("=") for part in options)
        parameters = {key.strip().lower(): value.strip().strip('"') for key, _, value in pairs}
        if name:
            yield name.lower(), parameters, _quality(parameters.pop("q", "1"))


def _quality(text: str) -> float:
    try:
        value = float(text)
    except ValueError:  # an invalid quality means not accepted
        return 0.0
    return value if 0.0 <= value <= 1.0 else 0.0


@_for_the_same_header
def accepts_gzip(accept_encoding: str) -> bool:
    """Return whether gzip is accepted, and preferred at least as much as the uncompressed page."""
    qualities = {name: quality for name, _, quality in _elements(accept_encoding)}
    gzip = qualities.get("gzip", qualities.get("x-gzip", qualities.get("*", 0.0)))
    return gzip > 0 and gzip >= qualities.get("identity", 0.0)


def only(page: bytes, names: Collection[str]) -> bytes:
    """Return the families with one of these names or samples of these names. A HELP line starts a family."""
    requested = {name.encode("utf-8", "replace") for name in names}
    _, *families = (b"\n" + page).split(b"\n" + _FAMILY)
    chosen = [_FAMILY + family.removesuffix(b"\n") + b"\n" for family in families if requested & _names(family)]
    return b"".join(chosen)


def _names(family: bytes) -> set[bytes]:
    """Return the names of the family and of its samples, which differ for counters in OpenMetrics."""
    name = family.split(b" ", 1)[0]
    sample = next((line for line in family.split(b"\n")[1:] if line and not line.startswith(b"#")), b"")
    return {name, sample.split(b"{", 1)[0].split(b" ", 1)[0]}


class BadQueryError(Exception):
    """A query that cannot be answered: the status, and a line with the error and the remedy."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status

    def response(self) -> Response:
        """Return the refusal."""
        return Response(self.status, (f"{self}\n".encode(),), headers=(("X-Content-Type-Options", "nosniff"),))


def quoted(text: str) -> str:
    """Return the client's text, cut and safe to be shown."""
    return f"'{cut(clean(text), _MOST_SHOWN)}'"
