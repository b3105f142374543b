"""AMD's rocm-smi and Hygon's hy-smi as one tool of two brands: the shapes of its output, and what else it prints."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from telemetry_parsers.model import Form, Output, Problem, Report
from telemetry_parsers.reports.draft import Draft, by_text
from telemetry_parsers.reports.tool import Refusal, Shape, Text, Tool, is_fine
from telemetry_parsers.rocm import kfd, words
from telemetry_parsers.rocm.blocks import read_blocks
from telemetry_parsers.rocm.cards import read_cards
from telemetry_parsers.rocm.concise import read_concise
from telemetry_parsers.rocm.document import read_document
from telemetry_parsers.rocm.listing import Listing, joined
from telemetry_parsers.rocm.pids import is_pid_list, read_pids
from telemetry_parsers.rocm.saved.csvform import read_csv
from telemetry_parsers.rocm.sections import CUT, is_of_card, miss_the_end, read_sections
from telemetry_parsers.text.answers import capped, error_report, failed
from telemetry_parsers.text.lines import Line, plain, quote

# What both tools give.
GIVES = (
    "temperature_celsius", "power_watts", "power_average_watts", "power_instant_watts", "power_cap_watts", "energy_joules_total",
    "memory_used_bytes", "memory_total_bytes", "memory_free_bytes", "memory_used_ratio", "memory_activity_ratio",
    "utilization_ratio", "engine_utilization_ratio", "fan_ratio", "clock_hertz", "performance_level",
    "pcie_link_generation", "pcie_link_width", "pcie_replays_total", "processes",
)  # fmt: skip
# Also `"ROCM-SMI version": "3.0.0+1b65f29",` and, of --csv, `ROCM-SMI version, 3.0.0+1b65f29`.
_VERSION = re.compile(
    r"\s{0,8}\"?(?:ROCM-SMI|hy-smi) version\"?[:,]?\s{0,8}\"?([0-9][^\s\",]{0,40})\"?,?\s{0,8}\Z", re.IGNORECASE
)
_LIBRARY = re.compile(
    r"\s{0,8}\"?ROCM-SMI-LIB version\"?[:,]?\s{0,8}\"?([0-9][^\s\",]{0,40})\"?,?\s{0,8}\Z", re.IGNORECASE
)
# `0   54.0c  …`, and since ROCm 6.1 `0   2   0x74a1,   28851  45.0°C  …`.
_BARE_ROW = re.compile(
    r"\s{0,8}[0-9]{1,4}\s{1,12}(?:[0-9]{1,4}\s{1,12}0x[0-9a-fA-F]{2,8},\s{1,12}[0-9]{1,9}\s{1,12})?-?[0-9.]{1,6}(?:°C|c|C)\s"
)


@dataclass(frozen=True, slots=True)
class Brand:
    """How one of the two tools differs from the other.

    `plain_sensor` is what it means by a temperature without a sensor's name. `is_other` recognises a text, with the listing
    in it, as output of the `other` tool. `gives` are the metrics that it is known to print.
    """

    name: str
    vendor: str
    plain_sensor: str
    is_other: Callable[[str, Listing | None], bool]
    other: str
    silent: str
    gives: tuple[str, ...]


def tool_of(brand: Brand) -> Tool:
    """The tool of that brand."""
    return Tool(
        name=brand.name,
        vendor=brand.vendor,
        shapes=(
            _listing(brand, lambda text: read_document(text.joined), "json"),
            _listing(brand, lambda text: read_csv(text.lines), "json"),
            _listing(brand, lambda text: _tables(text.lines, brand.plain_sensor), "text"),
            _unlisted(brand, _read_processes),
            _unlisted(brand, _read_versions),
        ),
        silent=brand.silent,
        errors=words.ERRORS,
        words=words.NO_NUMBERS,
        wording=by_text,
        quiet_statuses=words.QUIET_STATUSES,
        marks_first=False,
        # Before the marks of other tools: Hygon's errors may stand beside lines that rocm-smi prints as well.
        refusals=(_of_the_other(brand), _error),
        remnants=(partial(_remnant, tool=brand.name),),
        is_complaint=words.is_complaint,
        finish=_with_sleep,
    )


def _listing(brand: Brand, listing_in: Callable[[Text], Listing | None], form: Form) -> Shape:
    """A shape that lists cards or facts of the node, and maybe processes beside them."""

    def read(text: Text, draft: Draft) -> bool:
        listing = listing_in(text)
        if listing is not None and not brand.is_other(text.joined, listing):
            read_cards(listing, brand.gives, draft)
            kfd.read_usage(text.lines, draft)
        return listing is not None

    def without_cards(report: Report, text: Text, _tool: Tool) -> Report:
        listing = listing_in(text)
        if brand.is_other(text.joined, listing):
            return _output_of_the_other(brand)
        if (listing is not None and listing.system) or kfd.usage_in(text.lines) is not None:
            return replace(report, outcome="ok")
        empty = Problem("text", "the list of devices is empty")
        why = error_report(text.lines, None, words.ERRORS)
        return why or replace(report, problems=capped([*report.problems, empty]), is_cut=False)

    return Shape(read, form, without_cards)


def _unlisted(brand: Brand, read: Callable[[Sequence[Line], Draft], bool]) -> Shape:
    """A shape without a listing, such as versions; it need not name a card."""

    def read_own(text: Text, draft: Draft) -> bool:
        return not brand.is_other(text.joined, None) and read(text.lines, draft)

    return Shape(read_own, empty=is_fine)


def _tables(lines: Sequence[Line], plain_sensor: str) -> Listing | None:
    """The listing of concise tables, sections and tables of blocks, which may stand in one text."""
    concise = read_concise(lines, plain_sensor)
    readings = (concise, read_sections(lines), read_blocks(lines))
    listings = [listing for listing in readings if listing is not None]
    if listings and concise is None:
        for line in lines:
            if not is_of_card(line) and (words.is_error(line) or _BARE_ROW.match(line.text)):
                listings[-1].complain(line.where, quote(line.text))
        miss_the_end(lines, listings[-1])
    return joined(listings) if listings else None


def _read_processes(lines: Sequence[Line], draft: Draft) -> bool:
    """The processes by card, out of AMD's list of each process's cards or out of Hygon's list."""
    if not kfd.read_usage(lines, draft):
        if not is_pid_list(lines):
            return False
        read_pids(lines, draft)
    if not any(words.is_end(line.text) for line in lines):
        draft.complain(lines[-1].where, f"{CUT}: {quote(lines[-1].text)}")
    return True


def _read_versions(lines: Sequence[Line], draft: Draft) -> bool:
    """The versions of the tool and its library, which are all that `--version` prints."""
    draft.index_space = ""
    draft.tool_version = _first(_VERSION, lines)
    library = _first(_LIBRARY, lines)
    if library is not None:
        draft.facts["library_version"] = library
    return draft.tool_version is not None or library is not None


def _first(pattern: re.Pattern[str], lines: Sequence[Line]) -> str | None:
    return next((match[1] for line in lines if line.ended and (match := pattern.match(line.text))), None)


def _output_of_the_other(brand: Brand) -> Report:
    return Report("not_mine", problems=(Problem("text", f"this is output of {brand.other}, not of {brand.name}"),))


def _of_the_other(brand: Brand) -> Refusal:
    """The report on words of the other brand where no shape was read."""

    def refuse(output: Output, lines: Sequence[Line]) -> Report | None:
        if brand.is_other(plain(output.text), None):
            return _output_of_the_other(brand)
        if not brand.is_other(f"{output.text}\n{output.stderr}", None):
            return None
        first = next(line for line in lines if line.text.strip())
        what = f"this is said by {brand.other}, not by {brand.name}: {quote(first.text)}"
        return Report("not_mine", problems=(Problem(first.where, what),))

    return refuse


def _error(output: Output, lines: Sequence[Line]) -> Report | None:
    return error_report(lines, output.status, words.ERRORS)


def _remnant(output: Output, lines: Sequence[Line], tool: str) -> Report | None:
    """The report on notices alone, on a head without a list, and on rows without their head."""
    printed = [line for line in lines if line.text.strip()]
    first = printed[0]
    if all(words.is_notice(line.text) for line in printed):
        return Report("no_devices", problems=(Problem(first.where, quote(first.text)),))
    if any(words.is_banner(line.text) for line in printed):
        return Report("no_devices", problems=(Problem(first.where, f"{tool} lists no device"),))
    if not _BARE_ROW.match(first.text):
        return None
    what = "rows of a table without its heading, which alone says what each column is; save the whole output"
    return failed("exit_status" if output.status else "not_understood", first.where, f"{what}: {quote(first.text)}")


def _with_sleep(report: Report, output: Output) -> Report:
    """The report, of cards that do not answer with what the tool says of their sleep."""
    if report.outcome != "ok" or all(device.up for device in report.devices):
        return report
    asleep = [line for line in Text((), output=output).all_lines if words.is_asleep(line.text)]
    problems = [*report.problems, *(Problem(line.where, quote(line.text)) for line in asleep)]
    return replace(report, problems=capped(problems))
