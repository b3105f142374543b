"""What a text gives by its target: the catalogue chooses the units, a table's row says what else there is to know."""

from __future__ import annotations

from dataclasses import replace

from telemetry_parsers import units
from telemetry_parsers.model import Absent, Device, Reading
from telemetry_parsers.reports.draft import Draft, by_text
from telemetry_parsers.reports.targets import fact, identity, metric, special, state, switch, value_of

BAD = Absent.NOT_UNDERSTOOD


def test_a_text_is_read_by_its_target() -> None:
    for target, text, unit, value in [
        (metric("power_cap_watts", unit="W"), "300", "", 300.0),
        (metric("power_cap_watts"), "300000 mW", "", 300.0),
        (metric("power_cap_watts"), "300", "", BAD),
        (metric("power_cap_watts"), "300", "W", 300.0),
        (metric("power_cap_watts"), "300000", "mw", 300.0),
        (metric("power_cap_watts"), "300", "MHz", BAD),
        (metric("power_cap_watts"), "N/A", "MHz", Absent.NOT_REPORTED),
        (metric("voltage_volts", "core"), "830", "mV", 0.83),
        (metric("power_cap_watts", unit="W", zero=Absent.NOT_SUPPORTED), "0.0 W", "", Absent.NOT_SUPPORTED),
        (metric("power_cap_watts", unit="W", words={"none": Absent.NOT_SUPPORTED}), "None", "", Absent.NOT_SUPPORTED),
        (metric("fan_rpm"), "1200 RPM", "", 1200.0),
        (switch("ecc_enabled", {"on": 1.0}), "ON", "", 1.0),
        (switch("ecc_enabled", {"on": 1.0}), "1", "", BAD),
        (switch("ecc_enabled", {"on": 1.0}), "N/A", "", Absent.NOT_REPORTED),
        (state("ecc_enabled", {"on": 1.0}), "Default", "", None),
        (special("pcie_link_generation", lambda text, unit: units.pcie_generation(text)), "16.0", "", 4.0),
        (special("fan_rpm", lambda text, unit: units.quantity(text, units.RPM, unit)), "1200", "RPM", 1200.0),
    ]:
        assert value_of(target, text, unit) == value


def test_the_first_number_stays_and_what_is_known_of_a_device_too() -> None:
    draft = Draft("amd", wording=by_text, words={"failed": Absent.NOT_REPORTED})
    card = draft.device("0000:01:00.0", Device("hygon", 3))
    for text in ("Failed", "-40", "57", "60"):
        draft.take(card, (metric("temperature_celsius", "core", unit="C"),), text, "line 1")
    draft.describe(card, Device("amd", 7, model="one"), {"slot": "4", "node": None})
    draft.take(card, (identity("model"), fact("slot")), "another", "line 2")
    report = draft.report()
    assert report.devices == (Device("hygon", 3, model="one", facts=(("slot", "4"),)),)
    assert report.readings == (Reading(0, "temperature_celsius", 57.0, "core"),)
    assert [problem.text for problem in report.problems] == ['"-40" is implausible']


def test_readings_keep_their_order_when_one_is_overruled() -> None:
    draft = Draft("amd")
    one, other = draft.device(0), draft.device(1)
    for position, key in ((one, "fan_ratio"), (other, "fan_ratio"), (one, "utilization_ratio")):
        draft.give(position, metric(key), 0.0)
    draft.overrule(Reading(one, "fan_ratio", Absent.IMPLAUSIBLE))
    draft.rewrite(one, replace(draft.device_at(one), up=False))
    assert [item.metric for item in draft.readings_of(one)] == ["fan_ratio", "utilization_ratio"]
    assert [(item.device, item.value) for item in draft.report().readings] == [
        (0, Absent.IMPLAUSIBLE),
        (1, 0.0),
        (0, 0.0),
    ]
    assert [device.up for device in draft.report().devices] == [False, True]
