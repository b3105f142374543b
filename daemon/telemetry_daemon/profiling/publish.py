"""Writes a file of steps for the daemon, as a job does: whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path

from telemetry_daemon.guarded import named
from telemetry_parsers.ownership import StepCounts
from telemetry_parsers.steps import SCHEMA

_READABLE = 0o644
_PLAIN = frozenset("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_.")


def publish(folder: Path, counts: StepCounts) -> Path:
    """Put the counts where the daemon reads them; returns the file. Raises OSError."""
    card = {counts.card.way: counts.card.value} if counts.card is not None else {}
    if "index" in card:
        card = {"index": int(card["index"])}  # type: ignore[dict-item]  # JSON takes both
    told = {
        "schema": SCHEMA,
        "job_id": counts.job_id,
        "rank": counts.rank,
        "card": card,
        "steps": counts.steps,
        "tokens": counts.tokens,
        "flops": counts.flops,
        "seconds": {spent.part: spent.seconds for spent in counts.seconds},
    }
    path = folder / f"{_plain(counts.job_id)}-{_plain(counts.rank)}.json"
    named.replace(path, json.dumps(told).encode(), _READABLE)
    return path


def _plain(text: str) -> str:
    return "".join(one if one in _PLAIN else "_" for one in text)
