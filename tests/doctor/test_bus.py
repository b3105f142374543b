"""Contradictions between bus, sources and devices."""

from dataclasses import replace

import pytest

from telemetry_daemon.doctor.cards import Listing, contradiction_findings, source_listings
from telemetry_daemon.doctor.daemon import DaemonView
from telemetry_daemon.doctor.examination import examine_remote
from telemetry_parsers.model import Device, MergedDevice, MergedReading, Snapshot

A, B, C = "0000:3b:00.0", "0000:5e:00.0", "0000:86:00.0"


def listing(source: str, *addresses: str, cards: int | None = None, is_incomplete: bool = False) -> Listing:
    devices = [Device("nvidia", bus_id=address) for address in addresses]
    (found,) = (
        source_listings(source, devices, is_incomplete=is_incomplete)
        if devices
        else (Listing(source, "nvidia", cards or 0),)
    )
    return found


def devices(*addresses: str) -> list[MergedDevice]:
    return [
        MergedDevice("nvidia", position, f"id{position}", str(position), "X", bus_id=at or None)
        for position, at in enumerate(addresses)
    ]


TWO_DOMAINS = ["0009:01:00.0", "0019:01:00.0"]
PART = A[:-1] + "1"
# The addresses on the bus, what sources list, the reported devices, and the contradictions: where and what.
CASES: dict[str, tuple[list[str], list[Listing], list[MergedDevice], str, str]] = {
    "all agree, as some tools print them": ([A, B], [listing("nvml", A.upper(), "5e:00.0")], devices(A, B), "", ""),
    "domains tell cards apart": (TWO_DOMAINS, [listing("nvml", *TWO_DOMAINS)], devices(*TWO_DOMAINS), "", ""),
    "a bus that cannot be seen": ([], [listing("nvml", A)], devices(A), "", ""),
    "a card that the bus does not have": (
        [A],
        [listing("nvml", A, B)],
        devices(A, B),
        "nvml",
        f"1 card listed, but not on the PCI bus: {B.partition('.')[0]}",
    ),
    "parts of a card with its address, or as functions": (
        [A],
        [listing("nvml", A), listing("tool", A, PART, A)],
        devices(A, PART),
        "",
        "",
    ),
    "two sources that disagree": (
        [A, B],
        [listing("nvml", A, B), listing("tool", A)],
        devices(A, B),
        "nvidia",
        "0000:5e:00: listed by nvml, not by tool",
    ),
    "the source's own problem says it already": (
        [A, B],
        [listing("nvml", A, B), listing("tool", A, is_incomplete=True)],
        devices(A, B),
        "",
        "",
    ),
    "two numbers of cards without addresses": (
        [A, B, C],
        [listing("nvml", A, B, C), listing("tool", cards=2)],
        devices(A, B, C),
        "nvidia",
        "nvml lists 3 cards, tool 2",
    ),
    "a card that was listed and is not reported": (
        [A, B],
        [listing("nvml", cards=2)],
        devices(A),
        "PCI bus",
        "2 nvidia cards on the PCI bus, 1 reported",
    ),
    "cards that are reported twice": (
        [A, B],
        [listing("nvml", A, B)],
        devices(A, B, "", ""),
        "PCI bus",
        "4 nvidia devices reported, 2 on the PCI bus: some are reported twice",
    ),
}


@pytest.mark.parametrize(("on_bus", "listed", "devices", "where", "what"), CASES.values(), ids=CASES)
def test_contradictions_are_found(
    on_bus: list[str], listed: list[Listing], devices: list[MergedDevice], where: str, what: str
) -> None:
    found = list(contradiction_findings({"nvidia": on_bus} if on_bus else {}, listed, devices))
    assert [(finding.where, finding.what) for finding in found] == [(where, what)] * bool(what)
    assert all(finding.remedy for finding in found)


def test_partitions_are_not_counted_as_cards() -> None:
    (found,) = source_listings(
        "nvml", [Device("nvidia", bus_id=A), Device("nvidia", bus_id=A, parent=0)], is_incomplete=False
    )
    assert found.card_count == 1


def read_by(source: str, *addresses: str) -> list[MergedDevice]:
    readings = (MergedReading("power_watts", "", 1.0, source),)
    return [replace(device, readings=readings) for device in devices(*addresses)]


@pytest.mark.parametrize(
    ("on_bus", "devices", "is_twice"),
    [
        (2, [], False),  # cards that sleep, or that no source reads
        (1, read_by("tool", "", ""), False),  # a card with two partitions
        (2, [*read_by("nvml", A, B), *read_by("tool", "", "")], True),
    ],
)
def test_other_node_is_judged_by_counts(on_bus: int, devices: list[MergedDevice], is_twice: bool) -> None:
    named = tuple(replace(device, id=f"id{at}") for at, device in enumerate(devices))
    examination = examine_remote(
        DaemonView("the daemon", Snapshot("n", 1e9, 0.0, 60.0, devices=named), bus_counts={"nvidia": on_bus})
    )
    twice = ["4 nvidia devices reported, 2 on the PCI bus: some are reported twice"]
    assert [finding.what for finding in examination.findings if "PCI bus" in finding.what] == twice * is_twice
