"""The state of a vendor's sources in one word, by which facts of the kernel are judged."""

from dataclasses import replace
from typing import Any

import pytest

from telemetry_daemon.doctor.cards import VendorSources, vendor_sources
from telemetry_daemon.polling.pci_bus import PCI_BUS
from telemetry_parsers.model import MergedDevice, MergedReading, Problem, Snapshot, SourceStatus


def status(name: str, state: Any, *problems: str, vendor: str = "amd") -> SourceStatus:
    return SourceStatus(name, vendor, state, problems=tuple(Problem(where, "") for where in problems))


def device(source: str, vendor: str = "amd", up: bool | None = True) -> MergedDevice:
    return MergedDevice(vendor, 0, source, "0", "", up=up, readings=(MergedReading("power_watts", "", 1.0, source),))


READ = VendorSources("amd", successful=("a",))
CASES: dict[str, tuple[list[SourceStatus], list[MergedDevice], VendorSources, bool]] = {
    "well": ([status("a", "ok")], [device("a")], READ, True),
    "a card that is lost": ([status("a", "ok")], [device("a", up=False)], VendorSources("amd"), False),
    "another tool is not there": (
        [status("a", "ok"), status("b", "missing")],
        [device("a")],
        replace(READ, missing=("b",)),
        True,
    ),
    "one fails": ([status("a", "ok"), status("b", "failed")], [device("a")], replace(READ, failed=("b",)), False),
    "a card is not listed": ([status("a", "ok", PCI_BUS)], [device("a")], replace(READ, incomplete=("a",)), False),
    "asleep": ([status("a", "suspended")], [], VendorSources("amd", paused=("a",)), True),
    "read by another's source": ([status("a", "ok", vendor="hygon")], [device("a")], READ, True),
    "switched off": (
        [status("a", "disabled"), status("b", "missing"), status("c", "not_mine")],
        [],
        VendorSources("amd", missing=("b",), is_switched_off=True),
        False,
    ),
    "one is off": ([status("a", "disabled"), status("b", "failed")], [], VendorSources("amd", failed=("b",)), False),
    "another vendor's fails": ([status("a", "failed", vendor="hygon")], [], VendorSources("amd"), False),
}


@pytest.mark.parametrize(("statuses", "devices", "expected", "is_well"), CASES.values(), ids=CASES)
def test_sources_of_a_vendor_are_summarized(
    statuses: list[SourceStatus], devices: list[MergedDevice], expected: VendorSources, is_well: bool
) -> None:
    snapshot = Snapshot("n", 1e9, 0.0, 60.0, devices=tuple(devices), sources=tuple(statuses))
    found = vendor_sources(snapshot, "amd")
    assert (found, found.is_working) == (expected, is_well)
