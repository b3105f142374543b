"""Moore Threads' mthreads-gmi: which of its shapes a text has, and the one parser for all of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from telemetry_parsers.contract import SourceParser
from telemetry_parsers.model import Capture, Command, Output, Poll, Problem, Report
from telemetry_parsers.text.answers import failed_midway
from telemetry_parsers.text.echoes import arguments_of
from telemetry_parsers.text.lines import Line, lines, plain
from telemetry_parsers.text.outputs import (
    report_on,
    report_on_error,
    report_on_silence,
    report_on_unknown,
    too_long,
    with_complaints,
)
from telemetry_parsers.text.prefixes import without_prefix
from telemetry_parsers.vendors.moorethreads.mthreads_gmi import keys, names, query, table
from telemetry_parsers.vendors.moorethreads.mthreads_gmi.words import ERRORS, SILENT, TOOL, VENDOR, Answer

_VERSION = re.compile(
    r"[ \t]{0,8}mthreads-gmi version[ \t]{0,8}:?[ \t]{0,8}([0-9][^\s]{0,40})[ \t]{0,8}\Z", re.IGNORECASE
)
# The only thing that the table tells and the query does not; all else of it would be older than the query's.
_PROCESSES = "processes"
_REPORT_TITLE = re.compile(r"={2,}\s{0,4}MUSA\s{1,4}Report={2,}\Z")


def parse(capture: Capture) -> Report:
    """What mthreads-gmi said: devices and readings, or the reason why there are none."""
    report = report_on(capture, _one, SILENT)
    return _processes_of(report) if capture.poll == _PROCESSES else report


def _processes_of(report: Report) -> Report:
    """The report without what the poll `readings` tells more often."""
    return replace(report, readings=tuple(item for item in report.readings if item.metric == _PROCESSES))


def _one(output: Output) -> Report:
    report = _read(output)
    return replace(report, outcome="wrong_request", reason=None) if _is_refusal(report, output) else report


def _is_refusal(report: Report, output: Output) -> bool:
    """Whether a version may not know the flags that it was given: nothing tells how old ones say so.

    What is no answer and no known failure is asked again with fewer flags; the bare table is never refused.
    """
    no_answer = report.outcome == "failed" and report.reason in ("not_understood", "exit_status")
    return no_answer and bool(arguments_of(output.name, TOOL))


def _read(output: Output) -> Report:
    refusal = too_long(output, TOOL)
    if refusal is not None:
        return refusal
    stdout, stderr = lines(output.text), lines(output.stderr, "stderr")
    answer = _shape(stdout, plain(output.text)) or _behind_prefix(stdout)
    if answer is None:
        return _nothing(output, [*stdout, *stderr])
    if output.status and not answer.complete:
        return failed_midway(answer.report, output.status)
    return with_complaints(answer.report, output)


def _shape(found: Sequence[Line], text: str) -> Answer | None:
    """The answer by the shape that the text has, None when it has none of the tool's."""
    if table.is_table(found):
        return table.read(found)
    if query.is_list(found):
        return query.read_list(found)
    return query.read_json(text) or names.read_names(found) or _facts_only(found)


def _behind_prefix(found: Sequence[Line]) -> Answer | None:
    """The answer by the shape behind the word that a launcher put before each line, None where there is neither."""
    bare = without_prefix(found)
    return None if bare == list(found) else _shape(bare, "\n".join(line.text for line in bare))


def _facts_only(found: Sequence[Line]) -> Answer | None:
    """The version line and the vendor's system report: nothing to read in them but the version."""
    versions = [match[1] for line in found if line.ended and (match := _VERSION.match(line.text))]
    facts = tuple(("tool_version", version) for version in versions[:1])
    title = next((line for line in found if _REPORT_TITLE.match(line.text.strip())), None)
    if title is not None:
        text = f"this is a musa_report.sh summary, which holds no readings; save the output of {TOOL} itself"
        return Answer(Report("wrong_request", problems=(Problem(title.where, text),), facts=facts))
    return Answer(Report("ok", facts=facts)) if facts else None


def _nothing(output: Output, found: Sequence[Line]) -> Report:
    """The report on a text without any shape of the tool's."""
    silence = report_on_silence(output, found, SILENT)
    return silence or report_on_error(output, found, TOOL, ERRORS) or report_on_unknown(output, found, TOOL)


_FOLDERS = ("/usr/bin", "/usr/local/bin", "/usr/local/musa/bin")

PARSER = SourceParser(
    name=TOOL,
    vendor=VENDOR,
    gives=tuple(dict.fromkeys((*table.GIVES, *keys.GIVES))),
    polls=(
        Poll("readings", Command(((TOOL, "-q", "--json"), (TOOL, "-q"), (TOOL,)), folders=_FOLDERS)),
        Poll(_PROCESSES, Command(((TOOL,),), folders=_FOLDERS), tier="slow", interval=60.0, lists_devices=False),
    ),
    parse=parse,
)
