"""`name[]=…` in a request: only the families with these names, cut out of the ready page."""

from __future__ import annotations

from collections.abc import Collection

_FAMILY = b"# HELP "


def only(page: bytes, names: Collection[str]) -> bytes:
    """The families that have one of these names, or whose samples have it.

    Each family begins with its HELP line. No other line can look like one: label values have no line breaks.
    """
    requested = {name.encode("utf-8", "replace") for name in names}
    _, *families = (b"\n" + page).split(b"\n" + _FAMILY)
    chosen = [_FAMILY + family.removesuffix(b"\n") + b"\n" for family in families if requested & _names(family)]
    return b"".join(chosen)


def _names(family: bytes) -> set[bytes]:
    """The family's name and its samples' name; in OpenMetrics a counter's samples end in `_total`, its family does not."""
    name = family.split(b" ", 1)[0]
    sample = next((line for line in family.split(b"\n")[1:] if line and not line.startswith(b"#")), b"")
    return {name, sample.split(b"{", 1)[0].split(b" ", 1)[0]}
