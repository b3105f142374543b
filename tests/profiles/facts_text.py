"""The facts of a profile as text for golden files: sums of kernels and calls, or every kernel and step."""

from collections.abc import Iterator, Sequence
from dataclasses import fields

from telemetry_profile.format_contract import Call, Device, Facts, Kernel, Link, Split

_SELDOM = frozenset({"graph_launches", "launching_ns", "gaps", "gap_ns", "fused_ns"})


def of_facts(facts: Facts, *, in_full: bool = False) -> Iterator[str]:
    names = ("format", "tool", "clock", "job_ranks", "boot_to_unix_ns")
    counts = ("remarks", "problems", "rank_cards", "node_folders")
    figures = {name: getattr(facts, name) for name in names} | {name: len(getattr(facts, name)) for name in counts}
    yield f"  {shown(figures)}"
    for device in facts.devices:
        yield from filter(str.strip, of_device(device, in_full=in_full))
    yield from (
        f"  link {shown({field.name: getattr(link, field.name) for field in fields(Link)})}" for link in facts.links
    )
    yield from (f"  hint {hint.cause} {hint.text}" for hint in facts.hints)
    if in_full:
        yield from (f"  host {call.name} calls={call.calls} ns={call.total_ns}" for call in facts.calls)
    elif facts.calls:
        yield f"  host {sums(facts.calls)}"


def of_device(device: Device, *, in_full: bool) -> Iterator[str]:
    card = device.card
    figures = {"rank": device.rank, "index": card.index, "model": card.model, "uuid": card.uuid, "bus": card.bus_id}
    yield "  device " + shown(figures | {"begin": device.begin_ns, "end": device.end_ns, "dtype": device.dtype})
    yield f"    {of_split(device.split)}"
    if device.flops is not None:
        yield f"    {device.flops}"
    for step in device.steps if in_full else device.steps[:1]:
        marks = f"cut={step.is_cut} mean={step.is_mean}"
        yield f"    step {step.name} begin={step.begin_ns} {marks} {of_split(step.split)}"
    if device.steps and not in_full:
        marks = f"cut={sum(step.is_cut for step in device.steps)} mean={sum(step.is_mean for step in device.steps)}"
        yield f"    {len(device.steps)} steps {marks} {of_split(*(step.split for step in device.steps))}"
    if in_full:
        yield from (
            f"    {shown({field.name: getattr(kernel, field.name) for field in fields(Kernel)})}"
            for kernel in device.kernels
        )
        return
    for work in ("compute", "communication", "copy"):
        if kernels := [kernel for kernel in device.kernels if kernel.work == work]:
            shapes = {(kernel.grid, kernel.block, kernel.occupancy_ratio) for kernel in kernels}
            longest = max(kernel.longest_ns or 0 for kernel in kernels)
            yield f"    {work} {sums(kernels)} longest={longest} shapes={len(shapes)}"


def sums(found: Sequence[Kernel] | Sequence[Call]) -> str:
    """Return the number of items, their calls and nanoseconds, and the first name."""
    counts = {
        "names": len(found),
        "calls": sum(part.calls for part in found),
        "ns": sum(part.total_ns for part in found),
    }
    return f"{shown(counts)} first={found[0].name[:24]!r}"


def of_split(*splits: Split) -> str:
    """Format the sum of splits, without the parts that are unknown in all."""
    found = {field.name: [getattr(split, field.name) for split in splits] for field in fields(Split)}
    numbers = {name: [value for value in values if value is not None] for name, values in found.items()}
    kept = {name: sum(values) for name, values in numbers.items() if values}
    return shown({name.removesuffix("_ns"): total for name, total in kept.items() if total or name not in _SELDOM})


def shown(values: dict[str, object]) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items() if value not in (None, ""))
