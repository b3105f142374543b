"""Golden files of every output format for the same snapshots. Read a changed file before you accept it."""

from dataclasses import replace
from pathlib import Path

import pytest

from kits import snapshots as kit
from telemetry_exporters.documents import snapshot_csv, snapshot_json
from telemetry_exporters.prometheus.families import OwnerSeries
from telemetry_exporters.prometheus.renderer import text_page
from telemetry_exporters.terminal.style import Colour
from telemetry_exporters.terminal.table import Detail, Selection, table
from telemetry_parsers.maintenance import Maintenance
from telemetry_parsers.model import STATES, Absent, MergedReading, Problem, Process, Sample
from telemetry_parsers.replay_info import ReplayInfo

FOLDER = Path(__file__).parent / "golden"
WIDTHS = (10, 50, 72, 80, 102, 108, 116, 120, 160, 250)
GIB = 2.0**30
of = kit.reading
POWER, CAP = of("power_watts", 80.0), of("power_cap_watts", 400.0)
USED, TOTAL = of("memory_used_bytes", 20.0 * GIB), of("memory_total_bytes", 80.0 * GIB)


def numbered(*cards):
    made = [
        kit.device(number, **card) if isinstance(card, dict) else kit.device(number, *card)
        for number, card in enumerate(cards)
    ]
    return kit.snapshot(*made)


def temperatures():
    """The temperature of a card is the highest except those of memory and board."""

    def heat(value, sensor=""):
        return of("temperature_celsius", value, sensor)

    no = Absent.NOT_SUPPORTED
    return numbered(
        (heat(41.0, "edge"),), (heat(no),), (heat(50.0, "memory"),), (heat(50.0, "hbm0"), heat(40.0, "edge")),
        (heat(50.0, "board"), heat(0.0, "edge")), (heat(no, "edge"), heat(61.0, "junction")),
        (heat(71.0, "hotspot"), heat(64.0, "core"), heat(90.0, "memory")),
    )  # fmt: skip


def pairs():
    """Power with its limit, used of total memory, and halves of both; numbers that are whole, small, large and minus zero."""
    return numbered(
        (POWER, CAP), (CAP,), (of("power_watts", 0.0), CAP), (of("power_watts", Absent.NOT_PERMITTED), CAP), (POWER,),
        (USED, TOTAL), (USED,), (TOTAL,), (of("memory_used_bytes", 1024.0),), (of("memory_free_bytes", 2.5),),
        (of("utilization_ratio", 0.0),),
        (of("memory_used_ratio", 0.0000305), of("energy_joules_total", 1.5e22), of("memory_total_bytes", 1e15)),
        (of("temperature_margin_celsius", -0.0),),
    )  # fmt: skip


def columns():
    fast, memory = of("clock_hertz", 1.98e9, "sm"), of("clock_hertz", 2.6e9, "memory")
    thermal, brake = of("throttled", 1.0, "sw_thermal"), of("throttled", 1.0, "hw_power_brake")
    users = (Process(0, 11, "a"), Process(0, 12, ""))
    return numbered(
        (POWER, fast, memory), (of("memory_activity_ratio", 0.41),), (of("fan_ratio", 0.3), of("fan_rpm", 2300.0)),
        (of("fan_ratio", Absent.NOT_SUPPORTED), of("fan_rpm", 2300.0)), (of("throttled", Absent.NOT_PERMITTED),),
        (of("throttled", 0.0, "sw_thermal"),), (thermal, brake), (of("processes", 3.0),), {"processes": users},
        {"bus_id": "0000:1a:00.0", "driver": "550.54.15"},
        (of("clock_hertz", Absent.NOT_REPORTED), of("clock_hertz", Absent.NOT_SUPPORTED, "sm")),
    )  # fmt: skip


def states():
    """Each state of a device. A lost device keeps identity and events, a device that no source lists its readings."""
    happened = (of("events_total", 1.0, "79"), of("event_last_timestamp_seconds", 1.7e9, "79"))
    health = [of("health", value, word) for word, value in (("alarm", 1.0), ("ok", 0.0), ("ok", 1.0), ("unknown", 1.0))]
    cards = (
        kit.full_device(0), kit.device(1), kit.device(2, up=None), kit.device(3, of("suspended", 1.0)),
        kit.device(4, POWER, of("suspended", 0.0)), kit.device(5, POWER, *health[:2]), kit.device(6, POWER, health[2]),
        kit.device(7, POWER, health[1], health[3]), kit.device(8, of("recovery_action", 1.0, "drain_and_reset")),
        kit.device(9, POWER, of("recovery_action", 1.0, "none")), kit.device(10, POWER, *happened, up=False),
        kit.device(11, id="4ED7F9F2 DA8741D8", up=False), kit.device(12, of("suspended", 1.0), up=None),
        kit.device(13, simulated=True), kit.device(14, id="part", parent="GPU-00000000", partition="0"),
        kit.full_device(0, vendor="amd", model="MI300X", id="x"),
    )  # fmt: skip
    return kit.snapshot(*cards)


def identities():
    """Facts and names of devices: each known fact is a label of the info metric, in no other fact's place."""
    odd = (("vendor", "x"), ("id", "x"), ("instance", "x"), ("9", "x"), ("__name__", "x"), ("", "x"))
    facts = (("numa_node", "1"), ("VBIOS Version", "96.00"), ("firmware", ""), ("power_kind", "average"))
    return numbered(
        {"uuid": "GPU-1", "bus_id": "0000:1a:00.0", "serial": "", "driver": "550.54.15", "facts": facts},
        {"simulated": True}, {"replayed": True}, {"current_model": "A better name"}, {"current_model": None},
        {"parent": "GPU-9", "partition": "1"}, {"facts": odd}, {"facts": (("a", "first"), ("A", "second"))},
        {"driver": "1", "facts": (("driver", "2"),)}, {"model": "", "current_model": None},
        {"model": "", "current_model": "A100"}, {"model": 'K100, "AI"', "current_model": 'K100, "AI"'},
        {"model": "天数智芯 BI-V100", "current_model": "天数智芯 BI-V100"},
    )  # fmt: skip


def sources():
    fresh = [
        kit.poll("polls", f"poll_{number}", state, expires=kit.NOW + left)
        for number, (state, left) in enumerate(
            [("ok", 0.1), ("ok", 0.0), ("no_devices", 1), ("suspended", 1), ("failed", 1)]
        )
    ]
    failures = (("timeout", 3), ("killed", 1))
    failure_fields = {"reason": "timeout", "seconds": 10.0, "last_success": kit.WALL_TIME - 300, "failures": failures}
    failing = kit.poll("npu-smi", "inventory", "failed", overruns=2, **failure_fields)
    foreign = "rocm-smi: another process runs it: our own source rocm-smi; asked again"
    return kit.snapshot(
        kit.full_device(),
        sources=(
            *(kit.source(f"in-{state.replace('_', '-')}", state) for state in STATES),
            *(kit.source(f"unasked-{state}", state, polls=()) for state in ("missing", "disabled", "released")),
            kit.source("never-polled", polls=(kit.poll(attempted=0.0),)),
            kit.source("polls", polls=tuple(fresh)),
            kit.source(
                "npu-smi",
                "failed",
                reason="timeout",
                detail="no answer within ten seconds from a tool that is usually fast",
                version="550.54.15",
                polls=(failing,),
                cpu_seconds=1.5,
                problems=(Problem("field x", "is new"), Problem("c", "d")),
                unknown_fields=("x",),
            ),
            kit.source("hy-smi", "stuck", detail=foreign),
        ),
    )


def of_the_daemon():
    """Samples of the daemon, readings of the host, and maintenance."""
    return kit.snapshot(
        kit.full_device(),
        daemon_samples=(
            Sample("telemetry_build_info", 1.0, (("version", "1.2.3"), ("python", "3.11.7"))),
            Sample("telemetry_devices_expected", 8.0, (("vendor", "nvidia"),)),
            Sample("telemetry_config_last_reload_successful", 1),
        ),
        host=(
            MergedReading("telemetry_host_load1", "", 0.5, "host"),
            MergedReading("telemetry_host_load5", "", Absent.NOT_REPORTED, "host"),
        ),
        maintenance=Maintenance(60.0, "new fans"),
    )


def owners():
    alone = kit.full_device(1, allocations=(kit.allocation(is_used=None),))
    return kit.snapshot(kit.shared_device(), alone, kit.full_device(2))


def absences():
    readings = (
        of("temperature_celsius", 41.0, "core"), of("power_watts", Absent.NOT_PERMITTED),
        of("power_cap_watts", Absent.NOT_SUPPORTED), of("memory_used_bytes", 1024.0), of("memory_total_bytes", 2048.0),
    )  # fmt: skip
    lacking = [kit.device(number, *readings) for number in range(10)]
    amd = replace(kit.full_device(vendor="amd", id="x"), readings=readings)
    return kit.snapshot(*lacking, amd, kit.device(11, up=False))


def room():
    """Cards with long names and many readings: columns are dropped for lack of space, numbers are never cut."""
    awake = kit.full_device(0, bus_id="0000:1a:00.0", driver="550.54.15")
    more = (of("clock_hertz", 1.98e9, "sm"), of("throttled", 0.0, "sw_thermal"))
    model = "An accelerator with a very long marketing name and 128 GiB of memory"
    return kit.snapshot(
        replace(awake, readings=(*awake.readings, *more)), kit.device(1), kit.full_device(2, model=model)
    )


SCENES = {
    scene.__name__.replace("_", "-"): scene
    for scene in (temperatures, pairs, columns, states, identities, sources, of_the_daemon, owners, absences, room)
}
SMALL = {
    "no source": kit.snapshot,
    "no device": lambda: kit.snapshot(
        sources=(kit.source("nvml", "missing", polls=()), kit.source("hy-smi", "no_devices"))
    ),
    "simulated": lambda: kit.snapshot(kit.full_device(simulated=True)),
    "partly simulated": lambda: kit.snapshot(kit.full_device(simulated=True), kit.full_device(1)),
    "recorded": lambda: kit.snapshot(kit.full_device(), recorded=ReplayInfo(0.0, "gpu-17")),
    "recorded somewhere": lambda: kit.snapshot(kit.full_device(), recorded=ReplayInfo(0.0)),
    **{
        f"maintenance {ends}": lambda ends=ends: kit.snapshot(maintenance=Maintenance(ends))
        for ends in (60.0, -60.0, 0.0, None)
    },
}


def shown(snapshot, command_lines):
    chosen = Selection(command_lines=command_lines)
    yield "page", page_of(snapshot)
    for width in WIDTHS:
        yield f"table of {width} columns", table(snapshot, width, Colour.NEVER)
    for detail in (Detail.REASONS, Detail.PROCESSES, Detail.EVERYTHING):
        yield f"table with {detail}", table(snapshot, 0, Colour.NEVER, detail, selection=chosen)
    yield "csv", snapshot_csv.render(snapshot).replace("\r\n", "\n")
    yield "processes as csv", snapshot_csv.processes(snapshot, command_lines).replace("\r\n", "\n")
    yield "document", snapshot_json.render(snapshot)


def page_of(snapshot, **parts):
    """Return the page without help lines, which are the same for every snapshot."""
    lines = text_page(snapshot, **parts).decode().splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("# HELP"))


def text_of(forms):
    return "".join(f"=== {name}\n{text}" for name, text in forms)


@pytest.mark.parametrize("name", SCENES)
def test_each_output_format_matches_its_golden_file(name, assert_golden):
    lines = {4711: 'train.py "\x1b[2J\n\u202e -e 3'}
    assert_golden(FOLDER / f"{name}.txt", text_of(shown(SCENES[name](), lines)))


def test_series_of_owners(assert_golden):
    """The sixteen largest processes of a card are shown without arguments; a card has the labels of a single owner."""
    users = [Process(0, pid, "python3", float(pid)) for pid in range(1, 41)]
    named = (Process(0, 50, "/opt/bin/python train.py --password=hunter2", 5.0), Process(0, 51, "", 4.0))
    card = kit.full_device(4, processes=(Process(0, 17, "a", 5.0), Process(0, 18, "b", 7.0)))
    part = kit.device(5, parent=card.id, processes=(Process(0, 17, "a", 5.0),))
    snapshot = kit.snapshot(
        kit.full_device(0, allocations=(kit.allocation(),)), kit.shared_device(1), kit.full_device(2, processes=users),
        kit.full_device(3, processes=(*named, Process(0, 52, "no memory"), kit.process(memory=9.0))), card, part,
    )  # fmt: skip
    shown = OwnerSeries(process_metrics=True, inline_labels=("user", "job_id"))
    assert_golden(FOLDER / "owner-series.txt", page_of(snapshot, owner_series=shown))


def test_node_summary_matches_its_golden_file(assert_golden):
    forms = [
        (name, table(made(), 0, Colour.NEVER) + page_of(made()).partition("# TYPE acc")[0])
        for name, made in SMALL.items()
    ]
    assert_golden(FOLDER / "nodes.txt", text_of(forms))
