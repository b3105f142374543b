"""Contradictions between bus, sources and devices: tables of what each of them has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from telemetry_daemon.doctor.bus import Listing, findings, findings_from_afar, listings
from telemetry_parsers.model import Device, MergedDevice, MergedReading

A, B, C = "0000:3b:00.0", "0000:5e:00.0", "0000:86:00.0"


def listing(source: str, *addresses: str, cards: int | None = None, is_told: bool = False) -> Listing:
    devices = [Device("nvidia", bus_id=address) for address in addresses]
    (found,) = listings(source, devices, is_told=is_told) if devices else (Listing(source, "nvidia", cards or 0),)
    return found


def devices(*addresses: str) -> list[MergedDevice]:
    return [
        MergedDevice("nvidia", place, f"id{place}", str(place), "X", bus_id=at or None)
        for place, at in enumerate(addresses)
    ]


CASES = [
    pytest.param([A, B], [listing("nvml", A, B)], devices(A, B), [], id="all agree"),
    pytest.param(
        [A, B],
        [listing("nvml", A.upper(), "5e:00.0"), listing("tool", A, B)],
        devices(A, B),
        [],
        id="as some tools print them",
    ),
    pytest.param([], [listing("nvml", A)], devices(A), [], id="a bus that cannot be seen"),
    pytest.param(
        [A],
        [listing("nvml", A, B)],
        devices(A, B),
        [("nvml", f"lists 1 card that the PCI bus does not have: {B.partition('.')[0]}")],
        id="a card that the bus does not have",
    ),
    pytest.param(
        ["0009:01:00.0", "0019:01:00.0"],
        [listing("nvml", "0009:01:00.0", "0019:01:00.0"), listing("tool", cards=2)],
        devices("0009:01:00.0", "0019:01:00.0"),
        [],
        id="domains that tell cards apart",
    ),
    pytest.param(
        [A],
        [listing("nvml", A), listing("tool", A, A[:-1] + "1", A)],
        devices(A, A[:-1] + "1"),
        [],
        id="parts of a card with its address, or as functions",
    ),
    pytest.param(
        [A, B],
        [listing("nvml", A, B), listing("tool", A)],
        devices(A, B),
        [("nvidia", "0000:5e:00: nvml lists it, tool does not")],
        id="two sources that disagree",
    ),
    pytest.param(
        [A, B],
        [listing("nvml", A, B), listing("tool", A, is_told=True)],
        devices(A, B),
        [],
        id="the source's own problem says it already",
    ),
    pytest.param(
        [A, B, C],
        [listing("nvml", A, B, C), listing("tool", cards=2)],
        devices(A, B, C),
        [("nvidia", "nvml lists 3 cards, tool 2")],
        id="two numbers of cards without addresses",
    ),
    pytest.param(
        [A, B],
        [listing("nvml", cards=2)],
        devices(A),
        [("PCI bus", "the bus has 2 nvidia cards, and 1 is told")],
        id="a card that was listed and is not told",
    ),
    pytest.param(
        [A, B],
        [listing("nvml", A, B)],
        devices(A, B, "", ""),
        [("PCI bus", "4 nvidia devices are told, and the bus has 2: some are told twice")],
        id="cards that are told twice",
    ),
]


@pytest.mark.parametrize(("on_bus", "listed", "told", "expected"), CASES)
def test_what_is_found(
    on_bus: list[str], listed: list[Listing], told: list[MergedDevice], expected: list[tuple[str, str]]
) -> None:
    found = list(findings({"nvidia": on_bus} if on_bus else {}, listed, told))
    assert [(finding.where, finding.what) for finding in found] == expected
    assert all(finding.remedy for finding in found)


def test_partitions_are_no_cards() -> None:
    (found,) = listings("nvml", [Device("nvidia", bus_id=A), Device("nvidia", bus_id=A, parent=0)], is_told=False)
    assert found.cards == 1


def read_by(source: str, *addresses: str) -> list[MergedDevice]:
    readings = (MergedReading("power_watts", "", 1.0, source),)
    return [replace(one, readings=readings) for one in devices(*addresses)]


@pytest.mark.parametrize(
    ("on_bus", "told", "expected"),
    [
        pytest.param(2, read_by("nvml", A, B), [], id="all agree"),
        pytest.param(3, read_by("nvml", A, B), [], id="a card of a virtual machine"),
        pytest.param(2, [], [], id="cards that sleep, or that nobody is to read"),
        pytest.param(1, read_by("tool", "", ""), [], id="a card of two parts"),
        pytest.param(
            2,
            [*read_by("nvml", A, B), *read_by("tool", "", "")],
            ["4 nvidia devices are told, and the bus has 2: some are told twice"],
            id="cards that are told twice",
        ),
    ],
)
def test_another_node_is_judged_by_its_numbers(on_bus: int, told: list[MergedDevice], expected: list[str]) -> None:
    found = findings_from_afar({"nvidia": on_bus}, [replace(one, id=f"id{at}") for at, one in enumerate(told)])
    assert [finding.what for finding in found] == expected
