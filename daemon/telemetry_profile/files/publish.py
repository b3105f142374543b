"""Writes the steps of a profile to a file for the daemon."""

from __future__ import annotations

import json
from pathlib import Path

from telemetry_daemon.guarded import named
from telemetry_parsers.ownership import DeviceName, PartSeconds, StepCounts
from telemetry_parsers.steps import SCHEMA
from telemetry_profile.format_contract import Card
from telemetry_profile.verdict.combine import Member

_FILE_MODE = 0o644
_SAFE_CHARACTERS = frozenset("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_.")


def publish(folder: Path, counts: StepCounts) -> Path:
    """Write the counts to a file in the folder, and return the file's path. Raise OSError if the file cannot be written."""
    card = {counts.card.way: counts.card.value} if counts.card is not None else {}
    if "index" in card:
        card = {"index": int(card["index"])}  # type: ignore[dict-item]  # JSON allows both types
    document = {
        "schema": SCHEMA,
        "job_id": counts.job_id,
        "rank": counts.rank,
        "card": card,
        "steps": counts.steps,
        "tokens": counts.tokens,
        "flops": counts.flops,
        "seconds": {part.part: part.seconds for part in counts.seconds},
    }
    # The prefix prevents a clash with the job's own file. If both wrote the same file, its counters would jump.
    path = folder / f"profile-{_safe_name(counts.job_id)}-{_safe_name(counts.rank)}.json"
    named.replace(path, json.dumps(document).encode(), _FILE_MODE)
    return path


# Pairs: (field of a split, name of the part in the document `telemetry.steps/1`).
_PARTS = (
    ("compute_ns", "compute"),
    ("exposed_communication_ns", "communication"),
    ("exposed_copy_ns", "copy"),
    ("idle_ns", "idle"),
)


def step_counts_of(member: Member, job_id: str) -> StepCounts | None:
    """Return a rank's step counts, or None if the card is unknown or no step is complete."""
    device = member.device
    steps = [step for step in device.steps if not (step.is_mean or step.is_cut)]
    card_name = _name_of_card(device.card)
    if not steps or card_name is None:
        return None
    seconds = []
    for split_field, part_name in _PARTS:
        lengths = [getattr(step.split, split_field) for step in steps]
        if None not in lengths:
            seconds.append(PartSeconds(part_name, sum(lengths) / 1e9))
    flops = device.flops.per_step * len(steps) if device.flops and device.flops.per_step is not None else None
    return StepCounts("", -1, job_id, str(device.rank or 0), card_name, float(len(steps)), None, flops, tuple(seconds))


def _name_of_card(card: Card) -> DeviceName | None:
    if card.uuid:
        return DeviceName(card.uuid, "uuid", card.uuid)
    if card.bus_id:
        return DeviceName(card.bus_id, "bus_id", card.bus_id)
    return None if card.index is None else DeviceName(str(card.index), "index", str(card.index))


def _safe_name(text: str) -> str:
    return "".join(character if character in _SAFE_CHARACTERS else "_" for character in text)
