"""Which shape an output of rocm-smi or hy-smi has, and the report on it: the same way for both tools."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from telemetry_parsers.model import Capture, Form, Output, Problem, Reason, Report
from telemetry_parsers.rocm import cards, words
from telemetry_parsers.rocm.blocks import read_blocks
from telemetry_parsers.rocm.concise import read_concise
from telemetry_parsers.rocm.csvform import read_csv
from telemetry_parsers.rocm.document import read_document
from telemetry_parsers.rocm.kfd import read_usage, with_usage
from telemetry_parsers.rocm.listing import Listing, joined
from telemetry_parsers.rocm.pids import is_pid_list, read_pids
from telemetry_parsers.rocm.sections import CUT, is_of_card, read_sections, without_end
from telemetry_parsers.text.answers import capped, error_report, failed, failed_midway
from telemetry_parsers.text.lines import Line, foreign_tool, lines, plain, quote
from telemetry_parsers.text.outputs import report_on, report_on_silence, too_long
from telemetry_parsers.text.prefixes import without_prefix

# Also `"ROCM-SMI version": "3.0.0+1b65f29",` and, of --csv, `ROCM-SMI version, 3.0.0+1b65f29`.
_VERSION = re.compile(
    r"\s{0,8}\"?(?:ROCM-SMI|hy-smi) version\"?[:,]?\s{0,8}\"?([0-9][^\s\",]{0,40})\"?,?\s{0,8}\Z", re.IGNORECASE
)
_LIBRARY = re.compile(
    r"\s{0,8}\"?ROCM-SMI-LIB version\"?[:,]?\s{0,8}\"?([0-9][^\s\",]{0,40})\"?,?\s{0,8}\Z", re.IGNORECASE
)
_BANNER = re.compile(
    r"\s{0,8}={0,200}[ =]{0,80}(?:(?:ROCm )?System Management Interface|End of (?:ROCm )?SMI Log)[ =]{0,200}\Z"
)

# `0   54.0c  …`, and since ROCm 6.1 `0   2   0x74a1,   28851  45.0°C  …`.
_BARE_ROW = re.compile(
    r"\s{0,8}[0-9]{1,4}\s{1,12}(?:[0-9]{1,4}\s{1,12}0x[0-9a-fA-F]{2,8},\s{1,12}[0-9]{1,9}\s{1,12})?-?[0-9.]{1,6}(?:°C|c|C)\s"
)


@dataclass(frozen=True, slots=True)
class Tool:
    """What tells one of the two tools from the other."""

    name: str
    vendor: str
    plain_sensor: str
    # Whether a text, with the listing in it, was printed by the other vendor's tool of that kind.
    is_other: Callable[[str, Listing | None], bool]
    other: str
    silent: str
    gives: tuple[str, ...] = cards.GIVES


def parse(capture: Capture, tool: Tool) -> Report:
    """What the tool said: devices and readings, or the reason why there are none."""
    return report_on(capture, lambda output: _one(output, tool), tool.silent, words.QUIET_STATUSES)


def _one(output: Output, tool: Tool) -> Report:
    refusal = too_long(output, tool.name)
    if refusal is not None:
        return refusal
    stdout, stderr = lines(output.text), lines(output.stderr, "stderr")
    all_lines = [*stdout, *stderr]
    report, complete = _read(stdout, plain(output.text), tool)
    if report is None:
        bare = without_prefix(stdout)
        if bare != stdout:
            report, complete = _read(bare, "\n".join(line.text for line in bare), tool)
    if report is None:
        return _nothing(output, all_lines, tool)
    if report.outcome != "ok":
        return report
    if output.status and not complete:
        return failed_midway(report, output.status)
    complaints = [Problem(line.where, quote(line.text)) for line in stderr if _is_complaint(line.text)]
    if any(not device.up for device in report.devices):
        complaints += [Problem(line.where, quote(line.text)) for line in all_lines if words.is_asleep(line.text)]
    return replace(report, problems=capped([*report.problems, *complaints]), is_cut=not complete)


def _read(found: Sequence[Line], text: str, tool: Tool) -> tuple[Report | None, bool]:
    """The report by the shape that the text has, None when it has none of the tool's; and whether it lists all cards."""
    listing, form = _listing(found, text, tool)
    if tool.is_other(text, listing):
        what = f"this is output of {tool.other}, not of {tool.name}"
        return Report("not_mine", problems=(Problem("text", what),)), True
    usage = read_usage(found)
    report: Report | None
    if listing is not None:
        report = cards.report(listing, default_vendor=tool.vendor, index_space=tool.name, form=form, gives=tool.gives)
        if report.outcome == "no_devices" and usage is None:
            report = error_report(found, None, words.ERRORS) or replace(report, problems=capped(_no_row(report)))
    elif usage is not None:
        report = Report(index_space=tool.name)
    else:
        report = read_pids(found, tool.vendor, tool.name) if is_pid_list(found) else _facts_only(found)
    if report is not None and usage is not None:
        report = with_usage(report, usage, tool.vendor)
    is_list = listing is None and report is not None and report.outcome == "ok" and not report.facts
    if report is not None and is_list and not any(words.is_end(line.text) for line in found):
        report = replace(
            report, problems=(*report.problems, Problem(found[-1].where, f"{CUT}: {quote(found[-1].text)}"))
        )
    return report, listing is None or listing.complete


def _no_row(report: Report) -> list[Problem]:
    return [*report.problems, Problem("text", "the list of devices is empty")]


def _listing(found: Sequence[Line], text: str, tool: Tool) -> tuple[Listing | None, Form]:
    document = read_document(text)
    if document is not None:
        around = lines(document.around)
        extra = [Problem("text beside the JSON", quote(line.text)) for line in around if _is_complaint(line.text)]
        listing = document.listing
        return replace(listing, problems=(*listing.problems, *extra)), "json"
    table = read_csv(found)
    if table is not None:
        return table, "json"
    concise = read_concise(found, tool.plain_sensor)
    told_in = (concise, read_sections(found), read_blocks(found))
    listings = [listing for listing in told_in if listing is not None]
    if listings and concise is None:
        errors = [
            Problem(line.where, quote(line.text))
            for line in found
            if not is_of_card(line) and (words.is_error(line) or _BARE_ROW.match(line.text))
        ]
        cut = without_end(found)
        problems = (*listings[-1].problems, *errors, *cut)
        listings[-1] = replace(listings[-1], problems=problems, complete=listings[-1].complete and not cut)
    return joined(listings) if listings else None, "text"


def _is_complaint(text: str) -> bool:
    """Whether a line beside the data says something that a person should see."""
    if not text.strip() or words.is_notice(text) or words.is_unsupported(text):
        return False
    return (
        not text.lstrip().lower().startswith("warning") and _BANNER.match(text) is None and set(text.strip()) != {"="}
    )


def _facts_only(found: Sequence[Line]) -> Report | None:
    """The tool's version, which is all that `--version` prints."""
    facts = []
    for name, pattern in (("tool_version", _VERSION), ("library_version", _LIBRARY)):
        match = next((match for line in found if line.ended and (match := pattern.match(line.text))), None)
        if match is not None:
            facts.append((name, match[1]))
    return Report("ok", facts=tuple(facts)) if facts else None


def _nothing(output: Output, found: Sequence[Line], tool: Tool) -> Report:
    """The report on a text without any shape of the tool's."""
    silence = report_on_silence(output, found, tool.silent)
    if silence is not None:
        return silence
    first = next(line for line in found if line.text.strip())
    if tool.is_other(f"{output.text}\n{output.stderr}", None):
        what = f"this is said by {tool.other}, not by {tool.name}: {quote(first.text)}"
        return Report("not_mine", problems=(Problem(first.where, what),))
    error = error_report(found, output.status, words.ERRORS)
    if error is not None:
        return error
    foreign = foreign_tool(output.text + output.stderr, tool.name)
    if foreign is not None:
        return Report("not_mine", problems=(Problem("text", f"this is output of {foreign}, not of {tool.name}"),))
    return _unknown(output, found, first, tool)


def _unknown(output: Output, found: Sequence[Line], first: Line, tool: Tool) -> Report:
    """The report on a text that tells no error and of no other tool."""
    if all(words.is_notice(line.text) or not line.text.strip() for line in found):
        return Report("no_devices", problems=(Problem(first.where, quote(first.text)),))
    if any(_BANNER.match(line.text) for line in found):
        return Report("no_devices", problems=(Problem(first.where, f"{tool.name} lists no device"),))
    reason: Reason = "exit_status" if output.status else "not_understood"
    what = f"nothing that {tool.name} is known to print"
    if _BARE_ROW.match(first.text):
        what = "rows of a table without its heading, which alone says what each column is; save the whole output"
    return failed(reason, first.where, f"{what}: {quote(first.text)}")
