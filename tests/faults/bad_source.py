"""A plugin that invents devices at each poll, beside a correct tool; and a state file filled by a bad source."""

import json
import time
from dataclasses import asdict
from pathlib import Path

from kits.daemon import Daemon
from kits.tool_node import series, tool_node
from telemetry_daemon.state.devices_file import SCHEMA
from telemetry_parsers.model import Identity

FLOOD = "acme-flood"
_PLUGIN = """
import itertools

from telemetry_parsers.contract import SourceParser
from telemetry_parsers.model import Device, Event, Files, Poll, Problem, Process, Reading, Report

NUMBERS = itertools.count()
LETTERS = str.maketrans("0123456789", "abcdefghij")


def word(number):
    return str(number).translate(LETTERS)


def parse(capture):
    first = next(NUMBERS) * {devices}
    places = range({devices})
    return Report(
        devices=tuple(Device("acme", None, uuid=f"ACME-{{first + place:09d}}") for place in places),
        readings=tuple(Reading(place, "power_watts", 80.0) for place in places),
        events=tuple(Event(place, f"code_{{first + place}}") for place in places),
        processes=tuple(Process(place, 7, f"name {{first + place}}") for place in places),
        problems=tuple(Problem(f"line {{word(first + place)}}", "odd") for place in places[:20]),
        facts=(("tool_version", str(first)),),
    )


PARSER = SourceParser(
    name={name!r}, vendor="acme", gives=("power_watts",),
    polls=(Poll("all", Files(("/*",)), interval=0.2),), parse=parse,
)
"""


def flooded_node(folder: Path, devices: int, prefix: tuple[str, ...] = ()) -> Daemon:
    return tool_node(folder, flooding_plugin(folder, devices), prefix=prefix)[0]


def flooding_plugin(folder: Path, devices: int) -> str:
    (folder / "parsers").mkdir()
    text = _PLUGIN.format(name=FLOOD, devices=devices)
    (folder / "parsers" / "acme.py").write_text(text)
    return f'[parsers]\npaths = ["{folder}/parsers"]\n[sources.{FLOOD}]\ninterval = 0.2\n'


def honest_readings(daemon: Daemon) -> list[str]:
    return [line for line in series(daemon, "accelerator_") if 'vendor="iluvatar"' in line]


def fill_state(folder: Path, count: int) -> Path:
    path = folder / "state" / "devices.json"
    path.parent.mkdir()
    devices = (
        Identity(
            f"ACME-{n:09d}", "acme", str(n), "X", n, f"ACME-{n:09d}", listed_by=(FLOOD,),
            lost_since=time.time() - 3600.0, polls=1 << 20 if n == 0 else 1,
        )
        for n in range(count)
    )  # fmt: skip
    path.write_text(json.dumps({"schema": SCHEMA, "devices": [asdict(device) for device in devices]}, indent=1))
    return path
