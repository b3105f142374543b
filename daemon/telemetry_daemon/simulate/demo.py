"""Parses the value of `--demo`: `8xnvidia,4xhygon` becomes a list of simulated cards, or an error in one line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from telemetry_parsers.vendor import Vendor
from telemetry_parsers.vendors import VENDORS

EXAMPLE = "8xnvidia,4xhygon"
MOST_CARDS = 256
_GROUP = re.compile(r"([1-9][0-9]{0,3})x([a-z][a-z0-9]*)\Z")
_LONGEST_QUOTE = 48


class DemoError(ValueError):
    """An invalid demo node; the text names the part and shows an example."""


# The meaning of a word: a vendor with its usual model, or with another model.
PLAYED: Mapping[str, Vendor] = {
    **{vendor.word: vendor for vendor in VENDORS},
    **{word: replace(vendor, demo=demo) for vendor in VENDORS for word, demo in vendor.other_demos},
}
# How many cards of which vendor or model a simulated node has, in order.
Groups = tuple[tuple[str, int], ...]
USUAL: Groups = (("nvidia", 8),)


def parse_demo(text: str) -> Groups:
    """Return the node that the text describes, the usual node for a blank text. Raises DemoError."""
    if not text.strip():
        return USUAL
    counts: dict[str, int] = {}
    for part in text.split(","):
        word, count = _group(part.strip())
        # One source answers for all cards of a vendor.
        if PLAYED[word].word in by_vendor(tuple(counts.items())):
            raise _error(part, f"{PLAYED[word].word} is named twice; a simulated node has one model of each vendor")
        counts[word] = count
    if sum(counts.values()) > MOST_CARDS:
        raise DemoError(
            f"demo node: {sum(counts.values())} cards are more than {MOST_CARDS}; write for example {EXAMPLE}"
        )
    return tuple(counts.items())


# What `--fault` stages, with the words of its help.
STAGED_FAULTS: Mapping[str, str] = {
    "lost": "the last card is lost",
    "hot": "the first card is too hot",
    "xid": "the second card reports the error that ends its jobs",
    "hung": "the tool stops answering after a minute",
    "flapping": "the third card disappears for 20 s every minute",
}


def parse_faults(text: str) -> tuple[str, ...]:
    """Return the faults that the text names; raises DemoError."""
    faults = tuple(filter(None, (fault.strip() for fault in text.split(","))))
    for fault in faults:
        if fault not in STAGED_FAULTS:
            raise DemoError(f"--fault: '{fault[:_LONGEST_QUOTE]}' is unknown; known: {', '.join(STAGED_FAULTS)}")
    return faults


def by_vendor(groups: Groups) -> dict[str, int]:
    """Return how many cards of each vendor these groups have."""
    return {PLAYED[word].word: count for word, count in groups}


def _group(part: str) -> tuple[str, int]:
    match = _GROUP.match(part)
    if match is None and part.isdecimal():
        raise _error(part, f"no vendor is named; did you mean {part}xnvidia?")
    if match is None:
        raise _error(part, f"it is not a number of cards (1 to {MOST_CARDS}), x and a vendor")
    if match[2] not in PLAYED:
        from difflib import get_close_matches  # most demos spell their vendors correctly

        near = get_close_matches(match[2], PLAYED, n=1)
        raise _error(part, f"did you mean {match[1]}x{near[0]}?" if near else f"the vendors are {', '.join(PLAYED)}")
    return match[2], int(match[1])


def _error(part: str, why: str) -> DemoError:
    quoted = ascii(part[:_LONGEST_QUOTE])
    if len(quoted) > _LONGEST_QUOTE or len(part) > _LONGEST_QUOTE:
        quoted = quoted[: _LONGEST_QUOTE - 1] + "…'"
    return DemoError(f"demo node: {quoted}: {why}; write for example {EXAMPLE}")
