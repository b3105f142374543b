"""`telemetry check` on every fault that a device can have: status, lines and performance data, for each of its readers."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from kits.captures import ROOT
from kits.fed_node import demo_snapshot
from kits.planted_faults import FAULTS, NO_FAULTS, node_with
from kits.snapshots import device, reading, snapshot, source
from telemetry_exporters.documents import check_formats
from telemetry_exporters.judgement.checkup import Status, examine, worst_status
from telemetry_exporters.judgement.thresholds import overridden
from telemetry_exporters.snapshot_filter import clean_snapshot
from telemetry_parsers.model import Snapshot

GOLDEN = Path(__file__).parent / "faults.txt"
SCHEMA = json.loads((ROOT / "docs" / "check.schema.json").read_text())
# The status of each condition; unlisted conditions are neutral.
STATUSES = {"bad": Status.CRITICAL, "warning": Status.WARNING, "quiet": Status.OK, "good": Status.OK}


def status_of(node: Snapshot, **expected: int) -> Status:
    return examine(clean_snapshot(node), expected).status


@pytest.mark.parametrize("name", [*FAULTS, *NO_FAULTS])
def test_fault_has_the_status_of_its_condition(name: str) -> None:
    fault = {**FAULTS, **NO_FAULTS}[name]
    node, ids = node_with({name: fault})
    checkup = examine(clean_snapshot(node), {}, {ids[name]})
    assert checkup.status is (Status.UNKNOWN if fault.word == "unknown" else STATUSES[fault.severity])


def test_every_fault_in_every_format(assert_golden: Callable[[Path, str], None]) -> None:
    parts = []
    for name, fault in FAULTS.items():
        node, ids = node_with({name: fault})
        checkup = examine(clean_snapshot(node), {}, {ids[name]})
        parts.append(
            f"== {name}: exit {int(checkup.status)}, npd {check_formats.npd_status(checkup.status)}, nhc {check_formats.nhc_status(checkup.status)}\n"
        )
        parts += [check_formats.nagios_text(checkup), check_formats.npd_text(checkup), check_formats.nhc_text(checkup)]
    assert_golden(GOLDEN, "".join(parts))


def test_performance_data_are_well_formed() -> None:
    form = re.compile(r"[A-Za-z0-9_.:-]+=-?[0-9.]+(%|s|B|c)?(;[0-9.]*){0,4}\Z")
    for cards in ("2xnvidia,2xamd,2xascend", "128xnvidia", "1xh100mig"):
        text = check_formats.nagios_text(examine(clean_snapshot(demo_snapshot(cards)), {}))
        first, _, data = text.splitlines()[0].partition(" | ")
        assert first.startswith("TELEMETRY ")
        assert data
        assert all(form.match(word) for word in data.split(" ")), data
        labels = [word.partition("=")[0] for word in data.split(" ")]
        assert len(labels) == len(set(labels)) <= 256


def test_documents_follow_the_schema() -> None:
    for node in (snapshot(), node_with(FAULTS)[0], demo_snapshot("1xnvidia")):
        document = json.loads(check_formats.document(examine(clean_snapshot(node), {"nvidia": 3})))
        jsonschema.validate(document, SCHEMA)


@pytest.mark.parametrize(
    ("present", "expected", "status"),
    [
        (2, 2, Status.OK),
        (1, 2, Status.CRITICAL),
        (3, 2, Status.WARNING),
        (0, 0, Status.OK),
    ],
)
def test_missing_devices_are_critical(present: int, expected: int, status: Status) -> None:
    devices = demo_snapshot("3xnvidia").devices[:present]
    node = replace(demo_snapshot("3xnvidia"), devices=devices)
    assert status_of(node, nvidia=expected) is status


@pytest.mark.parametrize(
    ("state", "up", "status"),
    [
        ("ok", True, Status.OK),
        ("ok", False, Status.UNKNOWN),
        ("stuck", False, Status.CRITICAL),
        ("failed", False, Status.UNKNOWN),
        ("missing", None, Status.OK),
        ("no_devices", True, Status.OK),
        ("released", None, Status.OK),
        ("disabled", None, Status.OK),
    ],
)
def test_silent_source_is_never_ok(state: str, up: bool | None, status: Status) -> None:  # a case
    node = demo_snapshot("1xnvidia")
    changed = replace(node, sources=tuple(replace(source, state=state, up=up) for source in node.sources[:1]))  # type: ignore[arg-type]  # the states are words here
    assert status_of(changed) is status


def test_worst_status_is_chosen() -> None:
    assert worst_status([Status.UNKNOWN, Status.WARNING, Status.OK]) is Status.WARNING
    assert worst_status([Status.UNKNOWN, Status.CRITICAL]) is Status.CRITICAL
    assert worst_status([Status.UNKNOWN, Status.OK]) is Status.UNKNOWN
    assert worst_status([]) is Status.OK


def test_overridden_thresholds_are_local() -> None:
    node, ids = node_with({"pages": FAULTS["pages retired"]})
    shown = clean_snapshot(node)
    with overridden({"retired_pages": 11.0}):
        assert examine(shown, {}, {ids["pages"]}).status is Status.OK
    assert examine(shown, {}, {ids["pages"]}).status is Status.WARNING


def test_hostile_names_break_no_line() -> None:
    evil = "x|y=1\n2 CRITICAL\x1b[31m\u202e" + "z" * 5000
    node = snapshot(
        device(0, reading("power_watts", 1.0), model=evil, device=evil, id=evil),
        sources=(source(detail=evil),),
    )
    checkup = examine(clean_snapshot(node), {})
    first, *others = check_formats.nagios_text(checkup).splitlines()
    assert first.count("|") == 1
    assert first.isprintable()
    assert all("|" not in line and line.isprintable() and len(line) <= 400 for line in others)
    assert len(check_formats.npd_text(checkup).encode()) <= 80
    assert all(line.isprintable() for line in check_formats.nhc_text(checkup).splitlines())


def test_node_without_accelerators_is_ok() -> None:
    empty = snapshot()
    assert examine(empty, {}).status is Status.UNKNOWN
    assert examine(empty, {}, has_accelerators=False).status is Status.OK
    assert examine(empty, {"nvidia": 8}, has_accelerators=False).status is Status.CRITICAL
    words = check_formats.nhc_text(examine(empty, {}, has_accelerators=False))
    assert words == "OK devices: this node has no accelerators\n"
