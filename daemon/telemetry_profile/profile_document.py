"""A profile as the document `telemetry.profile/1`: seconds, bytes, and null for what is not known."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from telemetry_exporters.text import cleaned
from telemetry_profile.format_contract import Card, Kernel, Split
from telemetry_profile.verdict.cause import verdict_of
from telemetry_profile.verdict.combine import Member
from telemetry_profile.verdict.slowest_rank import slow_links, spread_of, straggler_of
from telemetry_profile.verdict.summary import Achieved, Answer, Spread, Then, kernel_sums
from telemetry_profile.verdict.usual_step import Usual

SCHEMA = "telemetry.profile/1"
_MOST_KERNELS = 100
_NANO = 1e9


def render(answer: Answer) -> str:
    """The document, with clean texts."""
    return json.dumps(document(cleaned(answer)), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def document(answer: Answer) -> dict[str, Any]:
    """The document as plain data."""
    profile = answer.profile
    verdict = verdict_of(profile, answer.ranks, answer.then)
    members = zip(answer.ranks, answer.achieved, answer.then, strict=True)
    return {
        "schema": SCHEMA,
        "verdict": {"cause": verdict.cause, "text": verdict.text, "share": verdict.share},
        "job_ranks": profile.ranks,
        "ranks": _ranks(answer),
        "devices": [_device(rank, achieved, then) for rank, achieved, then in members],
        "kernels": [
            _kernel(kernel.longest) | {"calls": kernel.calls, "total_seconds": kernel.total_ns / _NANO, "mean_seconds": _mean(kernel.total_ns, kernel.calls)}
            for kernel in kernel_sums(profile.members)[:_MOST_KERNELS]
        ],
        "links": [
            {"kind": link.kind, "source": link.source, "target": link.target, "bytes": link.bytes_moved, "seconds": link.busy_ns / _NANO}
            for link in profile.links
        ],
        "slow_links": [
            {"kind": slow.link.kind, "source": slow.link.source, "target": slow.link.target,
             "bytes_per_second": slow.rate, "median_bytes_per_second": slow.median_rate}
            for slow in slow_links(profile.links)
        ],
        "hints": [{"cause": hint.cause, "text": hint.text, "share": hint.share} for hint in profile.hints],
        "telemetry": answer.telemetry or None,
        "remarks": list(profile.remarks),
        "problems": [{"where": problem.where, "text": problem.text} for problem in profile.problems],
    }  # fmt: skip


def _ranks(answer: Answer) -> dict[str, Any] | None:
    spread, slow = spread_of(answer.ranks), straggler_of(answer.ranks)
    if spread is None:
        return None
    return {
        "median_seconds": spread.median_ns / _NANO,
        "slowest": _identity(spread.slowest.member),
        "fastest": _identity(spread.fastest.member),
        "skew_ratio": spread.skew,
        "straggler": None if slow is None else {"rank": slow.rank, "excess_ratio": slow.excess},
    }


def _identity(member: Member) -> dict[str, Any]:
    return {"rank": member.device.rank, "card": member.device.card.index}


def _device(rank: Usual, achieved: Achieved | None, then: Then | None) -> dict[str, Any]:
    member, device = rank.member, rank.member.device
    return {
        "rank": device.rank,
        "card": _card(device.card),
        "tool": member.tool,
        "formats": list(member.formats),
        "begin_timestamp_seconds": _seconds(member.begin_unix_ns),
        "end_timestamp_seconds": _seconds(member.end_unix_ns),
        "steps": rank.steps,
        "left_out": list(rank.left_out),
        "step": _split(rank.split) if rank.steps else None,
        "whole": _split(device.split),
        "without_first_collective": None if (rest := device.without_first_collective()) is None else _split(rest),
        "every_step": [
            {"name": step.name, "begin_seconds": _seconds(step.begin_ns), "is_cut": step.is_cut, "is_mean": step.is_mean, **_split(step.split)}
            for step in device.steps
        ],
        "kernels": [_kernel(kernel) for kernel in device.kernels[:_MOST_KERNELS]],
        "flops": None if device.flops is None else {
            "basis": device.flops.basis, "total": device.flops.total, "per_step": device.flops.per_step, "per_second": device.flops.per_second,
        },
        "achieved": None if achieved is None else {
            "flops_per_second": achieved.flops_per_second, "basis": achieved.basis, "is_lower_bound": achieved.basis == "shapes",
            "dtype": achieved.dtype or None, "peak_flops_per_second": achieved.peak, "peak_share_ratio": achieved.share,
        },
        "telemetry": None if then is None else _then(then),
    }  # fmt: skip


def _card(card: Card) -> dict[str, Any]:
    return {"index": card.index, "model": card.model or None, "uuid": card.uuid or None, "bus_id": card.bus_id or None}


def _split(split: Split) -> Mapping[str, Any]:
    """Each part in seconds under its own name."""
    return {
        field.name.replace("_ns", "_seconds"): value / _NANO
        if field.name.endswith("_ns") and value is not None
        else value
        for field in fields(split)
        for value in (getattr(split, field.name),)
    }


def _kernel(kernel: Kernel) -> dict[str, Any]:
    return {
        "name": kernel.name,
        "work": kernel.work,
        "calls": kernel.calls,
        "total_seconds": kernel.total_ns / _NANO,
        "mean_seconds": _mean(kernel.total_ns, kernel.calls),
        "longest_seconds": _seconds(kernel.longest_ns),
        "grid": kernel.grid or None,
        "block": kernel.block or None,
        "estimated_occupancy_ratio": kernel.occupancy_ratio,
    }


def _then(then: Then) -> dict[str, Any]:
    return {
        "device": then.device,
        "model": then.model or None,
        "matched_by": then.matched_by,
        "is_guess": then.is_guess,
        "samples": then.samples,
        "clock_hertz": _spread(then.clock_hertz),
        "clock_max_hertz": then.clock_max_hertz,
        "temperature_celsius": _spread(then.temperature_celsius),
        "power_watts": _spread(then.power_watts),
        "power_cap_watts": then.power_cap_watts,
        "throttled_seconds": dict(then.throttled_seconds),
        "errors": list(then.errors),
    }


def _spread(spread: Spread | None) -> dict[str, float] | None:
    return None if spread is None else {"min": spread.low, "mean": spread.mean, "max": spread.high}


def _seconds(nanoseconds: int | None) -> float | None:
    return None if nanoseconds is None else nanoseconds / _NANO


def _mean(total_ns: int, calls: int) -> float | None:
    return total_ns / calls / _NANO if calls else None
