"""Parses the value of `--demo`, such as `8xnvidia,4xhygon`, into the simulated cards of a node."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from telemetry_parsers.vendor import Vendor
from telemetry_parsers.vendors import VENDORS

EXAMPLE = "8xnvidia,4xhygon"
MAX_CARDS = 256
_GROUP = re.compile(r"([1-9][0-9]{0,3})x([a-z][a-z0-9]*)\Z")
_MAX_QUOTE_LENGTH = 48


class DemoError(ValueError):
    """An invalid value of `--demo` or `--fault`."""


# Maps each word of `--demo` to a vendor with a model.
SIMULATED_VENDORS: Mapping[str, Vendor] = {
    **{vendor.word: vendor for vendor in VENDORS},
    **{word: replace(vendor, demo=demo) for vendor in VENDORS for word, demo in vendor.other_demos},
}
# A group of cards: (vendor or model, number of cards).
Groups = tuple[tuple[str, int], ...]
DEFAULT_GROUPS: Groups = (("nvidia", 8),)


def parse_demo(text: str) -> Groups:
    """Return the groups of cards in `text`, or the default groups. Raise DemoError if a group is invalid."""
    if not text.strip():
        return DEFAULT_GROUPS
    counts: dict[str, int] = {}
    for part in text.split(","):
        word, count = _parse_group(part.strip())
        # Each vendor has one simulated source, and all its cards are of the same model.
        if SIMULATED_VENDORS[word].word in counts_by_vendor(tuple(counts.items())):
            raise _demo_error(
                part, f"{SIMULATED_VENDORS[word].word} is named twice; a demo can have only one model of each vendor"
            )
        counts[word] = count
    if sum(counts.values()) > MAX_CARDS:
        raise DemoError(
            f"demo node: {sum(counts.values())} cards exceed the limit of {MAX_CARDS}; write, for example, {EXAMPLE}"
        )
    return tuple(counts.items())


# Maps each value of `--fault` to its help text.
STAGED_FAULTS: Mapping[str, str] = {
    "lost": "the last card is lost",
    "hot": "the first card is too hot",
    "xid": "the second card reports an error that ends its jobs",
    "hung": "the tool stops answering after a minute",
    "flapping": "the third card disappears for 20 s every minute",
}


def parse_faults(text: str) -> tuple[str, ...]:
    """Return the names of the faults in `text`. Raise DemoError if a name is unknown."""
    faults = tuple(filter(None, (fault.strip() for fault in text.split(","))))
    for fault in faults:
        if fault not in STAGED_FAULTS:
            raise DemoError(f"--fault: '{fault[:_MAX_QUOTE_LENGTH]}' is unknown; known: {', '.join(STAGED_FAULTS)}")
    return faults


def counts_by_vendor(groups: Groups) -> dict[str, int]:
    """Return the number of cards of each vendor in these groups."""
    return {SIMULATED_VENDORS[word].word: count for word, count in groups}


def _parse_group(part: str) -> tuple[str, int]:
    match = _GROUP.match(part)
    if match is None and part.isdecimal():
        raise _demo_error(part, f"the vendor is missing; did you mean {part}xnvidia?")
    if match is None:
        raise _demo_error(part, f"expected a number of cards (1 to {MAX_CARDS}), the letter x and a vendor")
    if match[2] not in SIMULATED_VENDORS:
        from difflib import get_close_matches  # rarely needed, and slow to import

        matches = get_close_matches(match[2], SIMULATED_VENDORS, n=1)
        vendors = ", ".join(SIMULATED_VENDORS)
        raise _demo_error(part, f"did you mean {match[1]}x{matches[0]}?" if matches else f"the vendors are {vendors}")
    return match[2], int(match[1])


def _demo_error(group_text: str, reason: str) -> DemoError:
    quoted = ascii(group_text[:_MAX_QUOTE_LENGTH])
    if len(quoted) > _MAX_QUOTE_LENGTH or len(group_text) > _MAX_QUOTE_LENGTH:
        quoted = quoted[: _MAX_QUOTE_LENGTH - 1] + "…'"
    return DemoError(f"demo node: {quoted}: {reason}; write, for example, {EXAMPLE}")
