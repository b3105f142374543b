"""Rules for clusters that run NVIDIA's dcgm-exporter itself: the names of 4.9 from those before, and back."""

from __future__ import annotations

from collections.abc import Iterator

from telemetry_exporters.prometheus.compat.dcgm import DCGM, DEFAULT_RENAMES, DRIVER_LABELS, HOSTNAME_LABELS

# A label of every series that a rule makes. Without it, the rules of both directions would feed each other.
_MARK = "renamed"
_SCRAPED = f'{{{_MARK}=""}}'
_CAPACITY, _TOTAL, _BYTES = "DEV_FB_CAPACITY_BYTES", "DEV_FB_TOTAL", 1 << 20
# 4.9 exposes the capacity by default. Earlier releases expose its parts.
_PARTS = " + ".join(f"{DCGM.prefix}DEV_FB_{part}{_SCRAPED}" for part in ("FREE", "USED", "RESERVED"))


def dcgm_names() -> list[dict[str, object]]:
    """Return the groups of rules, one for each direction."""
    return [
        {"name": "dcgm-names-of-4.9", "rules": [*_forward(), _rule(_CAPACITY, f"({_PARTS}) * {_BYTES}", 0, 1)]},
        {
            "name": "dcgm-names-before-4.9",
            "rules": [*_back(), _rule(_TOTAL, f"{DCGM.prefix}{_CAPACITY}{_SCRAPED} / {_BYTES}", 1, 0)],
        },
    ]


def _forward() -> Iterator[dict[str, object]]:
    for old, new, factor in DEFAULT_RENAMES:
        yield _rule(new, f"{DCGM.prefix}{old}{_SCRAPED}{_by(' * ', factor)}", 0, 1)


def _back() -> Iterator[dict[str, object]]:
    for old, new, factor in DEFAULT_RENAMES:
        yield _rule(old, f"{DCGM.prefix}{new}{_SCRAPED}{_by(' / ', factor)}", 1, 0)


def _by(operator: str, factor: float) -> str:
    return "" if factor == 1.0 else f"{operator}{factor:.12g}"


def _rule(name: str, expression: str, given: int, wanted: int) -> dict[str, object]:
    """Return a rule that also copies the labels that have another name in the other generation."""
    for labels in (HOSTNAME_LABELS, DRIVER_LABELS):
        expression = f'label_replace({expression}, "{labels[wanted]}", "$1", "{labels[given]}", "(.+)")'
    return {"record": DCGM.prefix + name, "expr": expression, "labels": {_MARK: "yes"}}
