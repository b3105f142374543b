"""MTML's answers as the reader `mtml` records them: cards, MPC instances and their readings."""

from __future__ import annotations

from dataclasses import replace

from telemetry_parsers.contract import SourceParser
from telemetry_parsers.library_answers.answers import answer_in
from telemetry_parsers.library_answers.plain import error_in, mapping, objects, text
from telemetry_parsers.library_answers.readings import Readings
from telemetry_parsers.model import Capture, Device, Library, Output, Plain, Poll, Report, Tier
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.text.outputs import report_on
from telemetry_parsers.vendors.moorethreads import VENDOR
from telemetry_parsers.vendors.moorethreads.mtml import tables
from telemetry_parsers.vendors.moorethreads.mtml.card import card, instance, take

SOURCE = tables.MTML.source


def parse(capture: Capture) -> Report:
    """The report of MTML's answers: devices and readings, or the reason why there are none."""
    return report_on(capture, _one, "there is no output")


def _one(output: Output) -> Report:
    answer = answer_in(output, tables.MTML)
    if isinstance(answer, Report):
        return answer
    draft = tables.MTML.draft()
    draft.tool_version = text(answer.node.get("library"))
    for recorded in objects(answer.devices):
        _take_card(recorded, answer.node.get("driver"), draft)
    if len(objects(answer.devices)) < len(answer.devices):
        draft.complain("cards", "one of them is no object")
    report = draft.report("data")
    if report.devices:
        return report
    if report.problems:
        return Report("failed", "not_understood", problems=report.problems, facts=report.facts)
    return replace(report, outcome="no_devices")


def _take_card(recorded: dict[str, Plain], driver: Plain, draft: Draft) -> None:
    device = card(recorded, driver)
    where = f"GPU {device.bus_id or device.index}"
    position = _take(device, recorded, where, draft)
    if not device.up:
        words = f"the card does not answer; it is looked for again (MTML error {error_in(recorded['lost'])})"
        draft.complain(where, words)
    for part in objects(recorded.get("instances")):
        within = instance(part, device, position)
        if within is None:
            draft.complain(where, "an MPC instance without a number")
        else:
            _take(within, part, f"{where} MPC {within.partition}", draft)


def _take(device: Device, recorded: dict[str, Plain], where: str, draft: Draft) -> int:
    position = draft.add(device)
    take(mapping(recorded.get("calls")), Readings(tables.MTML, draft, position, where))
    return position


def _poll(name: str, tier: Tier, interval: float, deadline: float, *, lists_devices: bool) -> Poll:
    """Without the binding no process is started to look for the library."""
    request = Library(SOURCE, (name,), module="pymtml", package="device-telemetry[moorethreads]")
    return Poll(name, request, tier, interval, deadline, lists_devices)


PARSER = SourceParser(
    name=SOURCE,
    vendor=VENDOR.word,
    gives=tables.GIVES,
    polls=(
        _poll("fast", "fast", 2.0, 10.0, lists_devices=True),
        _poll("slow", "slow", 60.0, 20.0, lists_devices=False),
        _poll("inventory", "inventory", 300.0, 30.0, lists_devices=False),
    ),
    parse=parse,
)
