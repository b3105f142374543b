"""Who has a device, and which processes are on it, from a device's document; an older daemon's are enough."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast, get_args

from telemetry_daemon.nodes.plain import DocumentError, flag, moment, number, rows, table, text, whole
from telemetry_parsers import bounds
from telemetry_parsers.ownership import Allocation, Basis, Owner, OwnerKind, Process, ProcessKind

_MOST_SOURCES = 16
_KINDS: frozenset[str] = frozenset(get_args(OwnerKind))
_BASES: frozenset[str] = frozenset(get_args(Basis))
_PROCESS_KINDS: frozenset[str] = frozenset(get_args(ProcessKind))
_TEXTS = ("pod_namespace", "pod_name", "container_name", "job_id", "user", "account", "partition")


def allocations(device: Mapping[str, Any], device_id: str) -> tuple[Allocation, ...]:
    """Who has the device. Raises DocumentError."""
    given = rows(device.get("allocations") or [], f"allocations of {device_id}", bounds.MOST_CLAIMS)
    return tuple(_allocation(table(one, f"an allocation of {device_id}"), device_id) for one in given)


def _allocation(plain: Mapping[str, Any], device_id: str) -> Allocation:
    place = f"an allocation of {device_id}"
    share = number(plain.get("share"), f"share of {place}")
    basis = text(plain.get("basis"), f"basis of {place}")
    if not 0.0 <= share <= 1.0:
        raise DocumentError(f"share of {place}", "number from 0 to 1")
    return Allocation(
        owner=_owner(table(plain.get("owner"), f"owner in {place}"), place),
        share=share,
        # A newer daemon may know another one; it is only shown.
        basis=cast("Basis", basis if basis in _BASES else "equal"),
        is_allocated=flag(plain.get("allocated"), place) is True,
        is_used=flag(plain.get("used"), place),
        sources=tuple(text(one, place) for one in rows(plain.get("sources") or [], place, _MOST_SOURCES)),
        memory_used_bytes=_number_or_none(plain.get("memory_used_bytes"), place),
        started=_moment_or_none(plain.get("started"), place),
    )


def _owner(plain: Mapping[str, Any], place: str) -> Owner:
    kind = text(plain.get("kind"), f"kind of {place}")
    name = text(plain.get("name"), f"name of {place}", bounds.LONGEST_TEXT)
    others = {key: text(plain.get(key), f"{key} of {place}", bounds.LONGEST_TEXT) for key in _TEXTS}
    return Owner(cast("OwnerKind", kind if kind in _KINDS else "others"), name, **others)


def processes(device: Mapping[str, Any], device_id: str, owners: Sequence[Allocation] = ()) -> Iterator[Process]:
    """The processes on the device, with those of its owners that they name. Raises DocumentError."""
    known = {(one.owner.kind, one.owner.name): one.owner for one in owners}
    for one in rows(device.get("processes") or [], f"processes of {device_id}", bounds.MOST_PROCESSES):
        yield _process(table(one, f"a process on {device_id}"), f"a process on {device_id}", known)


def _process(plain: Mapping[str, Any], place: str, owners: Mapping[tuple[OwnerKind, str], Owner]) -> Process:
    kind = text(plain.get("kind"), f"kind of {place}")
    owner = None if plain.get("owner") is None else _owner(table(plain["owner"], f"owner of {place}"), place)
    return Process(
        device=0,
        pid=whole(plain.get("pid"), f"pid of {place}") or 0,
        name=text(plain.get("name"), f"name of {place}"),
        memory_used_bytes=_number_or_none(plain.get("memory_used_bytes"), f"memory of {place}"),
        kind=cast("ProcessKind", kind if kind in _PROCESS_KINDS else ""),
        instance=text(plain.get("instance"), f"instance of {place}"),
        utilization_ratio=_number_or_none(plain.get("utilization_ratio"), f"utilization of {place}"),
        started=_moment_or_none(plain.get("started"), f"start of {place}"),
        user=text(plain.get("user"), f"user of {place}", bounds.LONGEST_TEXT),
        command=text(plain.get("command"), f"command of {place}", bounds.LONGEST_TEXT),
        container=text(plain.get("container"), f"container of {place}", bounds.LONGEST_TEXT),
        owner=None if owner is None else owners.get((owner.kind, owner.name), owner),
    )


def _number_or_none(value: object, place: str) -> float | None:
    return None if value is None else number(value, place)


def _moment_or_none(value: object, place: str) -> float | None:
    return None if value is None else moment(value, place)
