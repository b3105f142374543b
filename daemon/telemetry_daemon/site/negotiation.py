"""What a request asks for: the syntax and the compression that it accepts (RFC 9110, sections 12.4 and 12.5), the families that it names; and the refusal of a bad query."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import lru_cache

from telemetry_daemon.web.messages import Response
from telemetry_exporters.prometheus.renderer import Syntax
from telemetry_exporters.text import clean, cut
from telemetry_parsers.dataclass import dataclass

_CHARSET = "charset=utf-8"
_MOST_ELEMENTS = 32
# A scraper sends the same header each time; the few that are kept may be as long as a request's head.
_for_the_same_header = lru_cache(maxsize=8)
# How names with other characters than [a-zA-Z0-9_:] would be written. We have none, so both come out the same.
_ESCAPINGS = ("allow-utf-8", "underscores")
_FAMILY = b"# HELP "
_MOST_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Offer:
    """A content type that a page of metrics can have."""

    media_type: str
    version: str
    syntax: Syntax
    names_escaping: bool = False


# The first is for clients without a preference: everything reads it.
OFFERS = (
    Offer("text/plain", "0.0.4", Syntax.TEXT),
    Offer("application/openmetrics-text", "1.0.0", Syntax.OPENMETRICS, names_escaping=True),
    Offer("application/openmetrics-text", "0.0.1", Syntax.OPENMETRICS),
    Offer("text/plain", "1.0.0", Syntax.TEXT, names_escaping=True),
)


@dataclass(frozen=True, slots=True)
class _Range:
    """One element of an Accept header: the types that it matches, and how much the client prefers them."""

    media_type: str
    parameters: dict[str, str]
    quality: float
    place: int

    def specificity(self, offer: Offer) -> int:
        """How exactly it names this offer; 0 when it does not match."""
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
    """The syntax to answer in, and its content type; plain text where nothing that we have is accepted."""
    ranges = [_Range(*element, place) for place, element in enumerate(_elements(accept))]
    accepted = [(offer, one) for offer in OFFERS if (one := _closest(offer, ranges)) and one.quality > 0]
    if not accepted:
        return OFFERS[0].syntax, _content_type(OFFERS[0], "")
    # The highest quality, then the client's order; beyond that min() keeps our own order.
    offer, one = min(accepted, key=lambda pair: (-pair[1].quality, pair[1].place))
    return offer.syntax, _content_type(offer, one.parameters.get("escaping", ""))


def _closest(offer: Offer, ranges: list[_Range]) -> _Range | None:
    """The element that names this offer most exactly; it alone decides."""
    matching = [one for one in ranges if one.specificity(offer)]
    return max(matching, key=lambda one: one.specificity(offer), default=None)


def _content_type(offer: Offer, escaping: str) -> str:
    text = f"{offer.media_type}; version={offer.version}; {_CHARSET}"
    if not offer.names_escaping:
        return text
    return f"{text}; escaping={escaping if escaping in _ESCAPINGS else 'underscores'}"


def _elements(header: str) -> Iterator[tuple[str, dict[str, str], float]]:
    """The elements of a list (name, parameters, quality), the first 32 of them."""
    for element in header.split(",", _MOST_ELEMENTS)[:_MOST_ELEMENTS]:
        name, *given = (part.strip() for part in element.split(";"))
        pairs = (part.partition("=") for part in given)
        parameters = {key.strip().lower(): value.strip().strip('"') for key, _, value in pairs}
        if name:
            yield name.lower(), parameters, _quality(parameters.pop("q", "1"))


def _quality(text: str) -> float:
    try:
        value = float(text)
    except ValueError:  # what a client garbled is not wanted
        return 0.0
    return value if 0.0 <= value <= 1.0 else 0.0


@_for_the_same_header
def accepts_gzip(accept_encoding: str) -> bool:
    """Whether gzip is accepted, and preferred at least as much as the uncompressed page."""
    qualities = {name: quality for name, _, quality in _elements(accept_encoding)}
    gzip = qualities.get("gzip", qualities.get("x-gzip", qualities.get("*", 0.0)))
    return gzip > 0 and gzip >= qualities.get("identity", 0.0)


def only(page: bytes, names: Collection[str]) -> bytes:
    """Return the families with one of these names, or with such samples. A line that begins with HELP starts a family."""
    requested = {name.encode("utf-8", "replace") for name in names}
    _, *families = (b"\n" + page).split(b"\n" + _FAMILY)
    chosen = [_FAMILY + family.removesuffix(b"\n") + b"\n" for family in families if requested & _names(family)]
    return b"".join(chosen)


def _names(family: bytes) -> set[bytes]:
    """The family's name and its samples' name; in OpenMetrics a counter's samples end in `_total`, its family does not."""
    name = family.split(b" ", 1)[0]
    sample = next((line for line in family.split(b"\n")[1:] if line and not line.startswith(b"#")), b"")
    return {name, sample.split(b"{", 1)[0].split(b" ", 1)[0]}


class BadQueryError(Exception):
    """A query that cannot be answered: the status, and a line that names what is wrong and what to do."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status

    def response(self) -> Response:
        """The refusal."""
        return Response(self.status, (f"{self}\n".encode(),), headers=(("X-Content-Type-Options", "nosniff"),))


def quoted(text: str) -> str:
    """What somebody gave, fit to be shown to them."""
    return f"'{cut(clean(text), _MOST_SHOWN)}'"
