"""The document `telemetry.doctor/1`: all facts and findings for programs, as docs/doctor.schema.json describes it."""

from __future__ import annotations

import errno
import platform
from collections import Counter
from typing import Any

from telemetry_daemon.doctor import sources
from telemetry_daemon.doctor.daemon import Beside, DaemonView, notes
from telemetry_daemon.doctor.examination import Examined
from telemetry_daemon.doctor.machine import DeviceNode
from telemetry_daemon.doctor.sources import Patient
from telemetry_daemon.version import __version__
from telemetry_exporters.documents.json_values import utc_time
from telemetry_exporters.text import clean

SCHEMA = "telemetry.doctor/1"
_Document = dict[str, Any]


def document(examined: Examined) -> _Document:
    """The document as plain data: all keys are always present, and what is unknown is None."""
    other = examined.other
    plain: _Document = {
        "schema": SCHEMA,
        "time": utc_time(examined.snapshot.wall_time),
        "hostname": examined.snapshot.hostname or None,
        "node": None if other is None else other.name,
        "versions": _versions(other),
        "pci": dict(examined.machine.on_bus if other is None else other.on_bus),
        **_machine(examined),
        "daemon": _daemon(examined.daemon) if other is None and not examined.is_partial else None,
        "flights": [
            {"name": one.name, "time": utc_time(one.wall_time), "cause": one.cause, "size_bytes": one.size_bytes}
            for one in examined.flights
        ],
        "sources": [_source(patient) for patient in examined.patients],
        "notes": list(examined.notes),
        "findings": [{"where": one.where, "what": one.what, "remedy": one.remedy} for one in examined.findings],
    }
    return {key: _cleaned(value) for key, value in plain.items()}


def _versions(other: DaemonView | None) -> _Document:
    if other is not None:
        return {"telemetry": other.version or None, "python": None, "kernel": None}
    return {"telemetry": __version__, "python": platform.python_version(), "kernel": platform.release()}


def _machine(examined: Examined) -> _Document:
    """What is known of this machine; of another node's nothing is."""
    machine, is_here = examined.machine, examined.other is None
    return {
        "user": machine.user if is_here else None,
        "groups": list(machine.groups),
        "container": machine.container or None,
        "cards": [
            {"bus_id": one.bus_id, "vendor": one.vendor, "driver": one.driver or None, "given_away": one.given_away}
            for one in machine.cards
        ],
        "device_nodes": [_node(node) for node in machine.nodes],
        "limits": _limits(examined) if is_here else None,
        "folders": [
            {"setting": one.setting, "path": one.path, "trouble": one.trouble or None, "free_bytes": one.free_bytes}
            for one in examined.folders
        ],
    }


def _cleaned(plain: Any) -> Any:
    """The same with every text as it may be shown."""
    if isinstance(plain, dict):
        return {clean(key): _cleaned(value) for key, value in plain.items()}
    if isinstance(plain, list):
        return [_cleaned(item) for item in plain]
    return clean(plain) if isinstance(plain, str) else plain


def _node(node: DeviceNode) -> _Document:
    return {
        "path": node.path,
        "vendors": list(node.vendors),
        "owner": node.owner,
        "group": node.group,
        "mode": f"{node.mode:04o}",
        "refused": errno.errorcode.get(node.refusal) if node.refusal else None,
    }


def _limits(examined: Examined) -> _Document:
    limits = examined.limits
    return {
        "memory_bytes": limits.memory_bytes,
        "tasks": limits.tasks,
        "cpus": limits.cpus,
        "open_files": limits.open_files,
    }


def _daemon(daemon: Beside) -> _Document:
    view, unit = daemon.view, daemon.unit
    return {
        "answers": view is not None,
        "why_not": daemon.why_not or None,
        "version": view.version or None if view is not None else None,
        "reads_the_same": view.reads == daemon.reads if view is not None and view.reads else None,
        "unit": None if unit is None else {"active": unit.active, "enabled": unit.is_enabled, "user": unit.user},
        "sources": [
            {"source": one.source, "state": one.state, "reason": one.reason, "detail": one.detail or None}
            for one in (view.snapshot.sources if view is not None else ())
        ],
        "devices": dict(Counter(one.vendor for one in (view.snapshot.devices if view is not None else ()) if one.up)),
        "notes": list(notes(daemon)),
    }


def _source(patient: Patient) -> _Document:
    status = patient.status
    return {
        "source": status.source,
        "state": status.state,
        "reason": status.reason,
        "detail": status.detail or None,
        "version": status.version or None,
        "tools": [tool.path for tool in sources.tools_found(patient)],
        "remedy": sources.remedy(patient) or None if status.state != "ok" else None,
        "problems": [{"where": problem.where, "text": problem.text} for problem in status.problems],
        "absent": sources.absences(patient),
        "unknown_fields": list(status.unknown_fields),
        "polls": [
            {"poll": one.poll, "state": one.state, "reason": one.reason, "seconds": round(one.seconds, 6)}
            for one in status.polls
        ],
    }
