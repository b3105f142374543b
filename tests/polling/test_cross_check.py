"""What the PCI bus has and a source does not list is a problem of that source."""

from __future__ import annotations

import pytest

from telemetry_daemon.polling.cross_check import unlisted
from telemetry_parsers.model import Device

BUS = ("0000:1a:00.0", "0000:3d:00.0", "0001:1a:00.0")


def device(bus_id: str | None = None, vendor: str = "nvidia", parent: int | None = None) -> Device:
    return Device(vendor, bus_id=bus_id, parent=parent)


@pytest.mark.parametrize(
    ("devices", "told"),
    [
        ([device(address) for address in BUS], None),
        ([device(address) for address in (*BUS, "0000:ff:00.0")], None),
        ([device(BUS[0]), device(BUS[2])], "1 of 3 devices on the PCI bus is not listed (0000:3d:00.0)"),
        ([device(BUS[0])], "2 of 3 devices on the PCI bus are not listed (0000:3d:00.0 0001:1a:00.0)"),
        ([device(), device(), device()], None),
        ([device(), device()], "1 of 3 devices on the PCI bus is not listed:"),
        ([device(BUS[0]), device()], "1 of 3 devices on the PCI bus is not listed:"),
        ([device("1a:00.0"), device("3d:00.0")], "1 of 3 devices on the PCI bus is not listed:"),  # either 1a:00.0
        ([device(BUS[0]), device(BUS[0], parent=0), device(BUS[0], parent=0)], "2 of 3"),
        ([*(device(address) for address in BUS[:2]), device(BUS[2], vendor="hygon")], "1 of 3"),
        ([], "3 of 3"),
    ],
)
def test_what_is_not_listed_is_told_by_its_address(devices: list[Device], told: str | None) -> None:
    problem = unlisted(devices, "nvidia", BUS)
    assert (problem is None) == (told is None)
    assert problem is None or (problem.where == "PCI bus" and (told or "") in problem.text)


def test_a_lost_card_that_is_listed_as_lost_is_not_told_twice() -> None:
    assert unlisted([device(BUS[0]), Device("nvidia", bus_id=BUS[1], up=False)], "nvidia", BUS[:2]) is None


def test_many_are_named_by_the_first_of_them() -> None:
    addresses = [f"0000:{number:02x}:00.0" for number in range(16)]
    problem = unlisted([], "amd", addresses)
    assert problem is not None
    assert "(0000:00:00.0 0000:01:00.0 0000:02:00.0 0000:03:00.0 and 12 more)" in problem.text


def test_without_a_bus_nothing_is_missing() -> None:
    assert unlisted([device()], "nvidia", ()) is None
