"""`name[]=…` on a ready page: only the families that were asked for by name."""

from __future__ import annotations

from collections.abc import Collection

_FAMILY = b"# HELP "


def only(page: bytes, names: Collection[str]) -> bytes:
    """The families whose own name, or whose samples' name, is among these.

    A page has a HELP line for each family, and no line of it can begin like one by accident: label values have no
    line breaks.
    """
    wanted = {name.encode("utf-8", "replace") for name in names}
    _, *families = (b"\n" + page).split(b"\n" + _FAMILY)
    chosen = [_FAMILY + family.removesuffix(b"\n") + b"\n" for family in families if wanted & _names(family)]
    return b"".join(chosen)


def _names(family: bytes) -> set[bytes]:
    """The family's name, and that of its samples, which differs in OpenMetrics: all our families have one kind."""
    name = family.split(b" ", 1)[0]
    sample = next((line for line in family.split(b"\n")[1:] if line and not line.startswith(b"#")), b"")
    return {name, sample.split(b"{", 1)[0].split(b" ", 1)[0]}
