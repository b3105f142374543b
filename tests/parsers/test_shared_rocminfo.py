"""What must be read in the real outputs of rocminfo that lie in the shared folder; the outputs are not kept here."""

from __future__ import annotations

import pytest

from kits.captures import shared_files, shared_text, text_capture
from telemetry_parsers.model import Absent, Report
from telemetry_parsers.vendors.amd.rocminfo import PARSER

pytestmark = pytest.mark.needs("captures")

KIB, MHZ = 2**10, 10**6
TOOL = "rocminfo"

# By file: vendor, index, model, uuid, bus address and driver of each card.
DEVICES: dict[str, list[tuple[str, int, str, str, str, str | None]]] = {
    "gpustack-amd-6.2.4": [("amd", 0, "AMD Radeon RX 7800 XT", "GPU-5c88007d760374f3", "03:00.0", "6.2.4")],
    # Its author masked numbers by leaving out digits: 15 and 14 are what is printed.
    "gpustack-hygon-dtk24.04.3": [("hygon", 0, "K1xx_AI", "GPU-7100fa8866904061", "00:01.7", None)],
    "rocminfo-docs-mi300x": [("amd", 0, "AMD Instinct MI300X", "GPU-a8673551b40c6374", "03:00.0", None)],
    "local-5.2.3-agent-enumerator-nodriver": [],
    "local-5.2.3-nodriver": [],
    "ollama6685-not-member-of-video": [],
    "z100-grep-gfx": [],
}
NUMBERS: dict[str, dict[str, float]] = {
    "gpustack-amd-6.2.4": {
        "compute_units": 60,
        "clock_max_hertz graphics": 2254 * MHZ,
        "memory_total_bytes": 16760832 * KIB,
    },
    "gpustack-hygon-dtk24.04.3": {
        "compute_units": 12,
        "clock_max_hertz graphics": 14 * MHZ,
        "memory_total_bytes": 67092480 * KIB,
    },
    "rocminfo-docs-mi300x": {
        "compute_units": 304,
        "clock_max_hertz graphics": 1800 * MHZ,
        "memory_total_bytes": 134201344 * KIB,
    },
}
FACTS = {
    "gpustack-amd-6.2.4": {"gfx_version": "gfx1101", "kfd_node": "1", "chip_id": "0x747e", "asic_revision": "0"},
    "gpustack-hygon-dtk24.04.3": {"gfx_version": "gfx928", "kfd_node": "8", "chip_id": "0x6210"},
    "rocminfo-docs-mi300x": {"gfx_version": "gfx941", "kfd_node": "1", "chip_id": "0x74a1", "asic_revision": "0"},
}
# Outcome, reason, and a word of the one problem.
FAILURES = {
    "local-5.2.3-agent-enumerator-nodriver": ("failed", "driver_gone", "/sys/class/kfd"),
    "local-5.2.3-nodriver": ("failed", "driver_gone", "NOT loaded"),
    "ollama6685-not-member-of-video": ("failed", "no_permission", "Permission denied"),
    "z100-grep-gfx": ("wrong_request", None, "extract"),
}


def report_on(name: str) -> Report:
    (path,) = (path for path in shared_files(TOOL) if path.stem == name)
    return PARSER.parse(text_capture(PARSER, shared_text(path)))


def test_every_shared_capture_has_its_expectation() -> None:
    assert {path.stem for path in shared_files(TOOL)} == set(DEVICES) == set(NUMBERS) | set(FAILURES)


@pytest.mark.parametrize("name", sorted(DEVICES))
def test_devices_are_those_printed(name: str) -> None:
    devices = report_on(name).devices
    found = [(one.vendor, one.index, one.model, one.uuid, one.bus_id, one.driver) for one in devices]
    assert found == DEVICES[name]
    assert [dict(device.facts) for device in devices] == ([FACTS[name]] if name in FACTS else [])


@pytest.mark.parametrize("name", sorted(NUMBERS))
def test_numbers_are_exactly_those_printed(name: str) -> None:
    report = report_on(name)
    found = {f"{item.metric} {item.label}".strip(): item.value for item in report.readings}
    assert {name: value for name, value in found.items() if not isinstance(value, Absent)} == NUMBERS[name]
    assert (report.problems, report.unknown_fields) == ((), ())


@pytest.mark.parametrize("name", sorted(FAILURES))
def test_what_lists_no_card_says_why(name: str) -> None:
    report = report_on(name)
    outcome, reason, word = FAILURES[name]
    assert (report.outcome, report.reason) == (outcome, reason)
    assert [word in problem.text for problem in report.problems] == [True]
