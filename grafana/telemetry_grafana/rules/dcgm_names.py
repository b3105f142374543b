"""Rules that convert between the names of older and newer versions of dcgm-exporter."""

from __future__ import annotations

from telemetry_exporters.prometheus.compat.dcgm import DCGM, DEFAULT_RENAMES, DRIVER_LABELS, HOSTNAME_LABELS

# Only recorded series have this label. Rules read only series without it, so that no rule reads another's result.
_RENAMED = "renamed"
_CAPACITY, _TOTAL, _MIB = "DEV_FB_CAPACITY_BYTES", "DEV_FB_TOTAL", 1 << 20


def _selector(name: str) -> str:
    return f'{DCGM.prefix}{name}{{{_RENAMED}=""}}'


# By default, releases before 4.9 expose these three parts of the capacity, but not the capacity itself.
_CAPACITY_PARTS = " + ".join(_selector(f"DEV_FB_{part}") for part in ("FREE", "USED", "RESERVED"))


def dcgm_names() -> list[dict[str, object]]:
    """Return rules that record each metric under its other name, old or new."""
    forward = [_rule(new, _selector(old) + _scaling(" * ", factor), 0, 1) for old, new, factor in DEFAULT_RENAMES]
    backward = [_rule(old, _selector(new) + _scaling(" / ", factor), 1, 0) for old, new, factor in DEFAULT_RENAMES]
    return [
        {"name": "dcgm-names-of-4.9", "rules": [*forward, _rule(_CAPACITY, f"({_CAPACITY_PARTS}) * {_MIB}", 0, 1)]},
        {
            "name": "dcgm-names-before-4.9",
            "rules": [*backward, _rule(_TOTAL, f"{_selector(_CAPACITY)} / {_MIB}", 1, 0)],
        },
    ]


def _scaling(operator: str, factor: float) -> str:
    return "" if factor == 1.0 else f"{operator}{factor:.12g}"


def _rule(name: str, expression: str, old_index: int, new_index: int) -> dict[str, object]:
    """Return a rule that records a series and renames its labels from the old to the new version, or back."""
    for labels in (HOSTNAME_LABELS, DRIVER_LABELS):
        expression = f'label_replace({expression}, "{labels[new_index]}", "$1", "{labels[old_index]}", "(.+)")'
    return {"record": DCGM.prefix + name, "expr": expression, "labels": {_RENAMED: "yes"}}
