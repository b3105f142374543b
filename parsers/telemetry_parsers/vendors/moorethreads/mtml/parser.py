"""MTML's answers as the reader `mtml` records them: cards, MPC instances and their readings."""

from __future__ import annotations

from telemetry_parsers.contract import SourceParser
from telemetry_parsers.model import Capture, Device, Library, Output, Plain, Poll, Reading, Report, Tier
from telemetry_parsers.recorded.answers import answer_in
from telemetry_parsers.recorded.plain import error_in, mapping, objects, text
from telemetry_parsers.recorded.readings import Notes, Readings
from telemetry_parsers.text.answers import capped
from telemetry_parsers.text.outputs import report_on
from telemetry_parsers.vendors.moorethreads.mtml import tables
from telemetry_parsers.vendors.moorethreads.mtml.card import VENDOR, card, instance, take

SOURCE = tables.MTML.source


def parse(capture: Capture) -> Report:
    """What MTML said: devices and readings, or the reason why there are none."""
    return report_on(capture, _one, "there is no output")


def _one(output: Output) -> Report:
    answer = answer_in(output, tables.MTML)
    return answer if isinstance(answer, Report) else _Document(answer.node).read(answer.devices)


class _Document:
    """One answer on its way to a report."""

    def __init__(self, node: dict[str, Plain]) -> None:
        self._node = node
        self._devices: list[Device] = []
        self._readings: list[Reading] = []
        self._notes = Notes()

    def read(self, cards: list[Plain]) -> Report:
        """The report on all cards."""
        for found in objects(cards):
            self._card(found)
        if len(objects(cards)) < len(cards):
            self._notes.problem("cards", "one of them is no object")
        if not self._devices and self._notes.problems:
            return Report("failed", "not_understood", problems=capped(list(self._notes.problems)), facts=self._facts())
        return Report(
            outcome="ok" if self._devices else "no_devices",
            devices=tuple(self._devices),
            readings=tuple(self._readings),
            problems=capped(list(self._notes.problems)),
            unknown_fields=tuple(self._notes.unknown),
            facts=self._facts(),
            index_space=SOURCE,
            form="data",
        )

    def _card(self, found: dict[str, Plain]) -> None:
        device = card(found, self._node.get("driver"))
        where = f"GPU {device.bus_id or device.index}"
        position = self._take(device, found, where)
        if not device.up:
            words = f"the card does not answer; it is looked for again (MTML error {error_in(found['lost'])})"
            self._notes.problem(where, words)
        for part in objects(found.get("instances")):
            within = instance(part, device, position)
            if within is None:
                self._notes.problem(where, "an MPC instance without a number")
            else:
                self._take(within, part, f"{where} MPC {within.partition}")

    def _take(self, device: Device, found: dict[str, Plain], where: str) -> int:
        position = len(self._devices)
        self._devices.append(device)
        readings = Readings(tables.MTML, position, where, self._notes)
        take(mapping(found.get("calls")), readings)
        self._readings += readings.told()
        return position

    def _facts(self) -> tuple[tuple[str, str], ...]:
        version = text(self._node.get("library"))
        return () if version is None else (("tool_version", version),)


def _poll(name: str, tier: Tier, interval: float, deadline: float, *, lists_devices: bool) -> Poll:
    """Without the binding no process is started to look for the library."""
    request = Library(SOURCE, (name,), module="pymtml", package="device-telemetry[moorethreads]")
    return Poll(name, request, tier, interval, deadline, lists_devices)


PARSER = SourceParser(
    name=SOURCE,
    vendor=VENDOR,
    gives=tables.GIVES,
    polls=(
        _poll("fast", "fast", 2.0, 10.0, lists_devices=True),
        _poll("slow", "slow", 60.0, 20.0, lists_devices=False),
        _poll("inventory", "inventory", 300.0, 30.0, lists_devices=False),
    ),
    parse=parse,
)
