"""Output formats that AMD's rocm-smi and Hygon's hy-smi share, and the differences between the two tools."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial

from telemetry_parsers.dataclass import dataclass, replace
from telemetry_parsers.model import Form, Output, Problem, Reason, Report
from telemetry_parsers.reports.draft import Draft, problem_by_text
from telemetry_parsers.reports.tool import Fallback, Shape, Tool, ToolText, always_accept, report_no_devices
from telemetry_parsers.rocm import messages, processes
from telemetry_parsers.rocm.broken_json import read_broken_json
from telemetry_parsers.rocm.cards import mentions_vendor, read_cards, texts_of, vendor_of
from telemetry_parsers.rocm.concise_table import read_concise_tables
from telemetry_parsers.rocm.listing import Listing, join_listings
from telemetry_parsers.rocm.processes import is_hygon_list, read_hygon_list
from telemetry_parsers.rocm.saved import read_csv
from telemetry_parsers.rocm.sections import NO_END_LINE, is_card_line, read_sections, read_tables, report_missing_end
from telemetry_parsers.text.answers import capped, error_report, failed
from telemetry_parsers.text.lines import Line, lines, quote
from telemetry_parsers.text.tool_marks import foreign_tool

# A row of a concise table: `0   54.0c  …` or, since ROCm 6.1, `0   2   0x74a1,   28851  45.0°C  …`.
_BARE_ROW = re.compile(
    r"\s{0,8}[0-9]{1,4}\s{1,12}(?:[0-9]{1,4}\s{1,12}0x[0-9a-fA-F]{2,8},\s{1,12}[0-9]{1,9}\s{1,12})?-?[0-9.]{1,6}(?:°C|c|C)\s"
)


def _read_any_listing(text: ToolText) -> Listing | None:
    return read_broken_json(text.joined) or read_csv(text.lines) or _read_tables(text.lines, default_sensor="")


def _read_tables(lines: Sequence[Line], default_sensor: str) -> Listing | None:
    """Return a listing of all tables and sections in the output, or None if there are none."""
    concise_listing = read_concise_tables(lines, default_sensor)
    results = (concise_listing, read_sections(lines), read_tables(lines))
    listings = [listing for listing in results if listing is not None]
    if listings and concise_listing is None:
        for line in lines:
            if not is_card_line(line) and (messages.is_error(line) or _BARE_ROW.match(line.text)):
                listings[-1].add_problem(line.where, quote(line.text))
        report_missing_end(lines, listings[-1])
    return join_listings(listings) if listings else None


_HYGON_MARKS = re.compile(
    r"\b(?:DCU|HCU)(?:\[[0-9]|%|\s{1,12}Temp| use \(| Index:| Node\(| memory use)|\bvram Total (?:Used )?Memory \(MiB\)"
    r"|No h(?:y?c|ydc)u Driver|mkfd|Hfm Link Status|[0-7] --> SN: |\bVram memory ECC|(?:\A|\n|(?<!ROCm)[= ])System Management Interface =|End of SMI Log"
)
_AMD_MARKS = re.compile(
    r"ROCm System Management Interface|End of ROCm SMI Log|ROCM-SMI|^\s{0,8}(?:ERROR: {0,4})?GPU\[[0-9]|^\s{0,8}GPU\s{1,12}(?:Temp|NODE)"
    r"|^\s{0,8}Device\s{1,12}(?:Node|\[Model)|Advanced Micro Devices|\bGPU use \(%\)|VRAM Total Memory \(B\)|KFD process information:"
    r"|usage: rocm[-_]smi|amdgpu|Current Socket Graphics Package|AMD GPU|DRM device\(s\)|No KFD PIDs",
    re.MULTILINE,
)


def is_from_hy_smi(text: ToolText) -> bool:
    """Return whether the output has typical words of Hygon's tool, or lists only Hygon's cards."""
    return _HYGON_MARKS.search(text.joined) is not None or _has_only_cards_of("hygon", text)


def is_from_rocm_smi(text: ToolText) -> bool:
    """Return whether the output has typical words of AMD's tool or lists only AMD's cards, and is not from hy-smi."""
    return not is_from_hy_smi(text) and (_AMD_MARKS.search(text.joined) is not None or _has_only_cards_of("amd", text))


def _has_only_cards_of(vendor: str, text: ToolText) -> bool:
    listing = _read_any_listing(text) if mentions_vendor(vendor, text.joined) else None
    return listing is not None and {vendor_of(texts_of(entries)) for entries in listing.cards.values()} == {vendor}


GIVES = (
    "temperature_celsius", "power_watts", "power_average_watts", "power_instant_watts", "power_cap_watts", "energy_joules_total",
    "memory_used_bytes", "memory_total_bytes", "memory_free_bytes", "memory_used_ratio", "memory_activity_ratio",
    "utilization_ratio", "engine_utilization_ratio", "fan_ratio", "clock_hertz", "performance_level",
    "pcie_link_generation", "pcie_link_width", "pcie_replays_total", "processes", "ecc_enabled", "ecc_corrected_total",
    "ecc_uncorrected_total",
)  # fmt: skip
# Without this variable, the library locks each card in /dev/shm, and a killed run leaves the lock behind.
# Jobs that use the library, such as RCCL, then wait 5 s for the lock and fail (rocm_smi_lib#88).
# The tools need no lock, because they only read files.
PRIVATE_LOCKS_ENV = (("RSMI_MUTEX_THREAD_ONLY", "1"),)
# In JSON `"ROCM-SMI version": "3.0.0+1b65f29",` and in CSV `ROCM-SMI version, 3.0.0+1b65f29`.
_VERSION = re.compile(
    r"\s{0,8}\"?(?:ROCM-SMI|hy-smi) version\"?[:,]?\s{0,8}\"?([0-9][^\s\",]{0,40})\"?,?\s{0,8}\Z", re.IGNORECASE
)
_LIBRARY = re.compile(
    r"\s{0,8}\"?ROCM-SMI-LIB version\"?[:,]?\s{0,8}\"?([0-9][^\s\",]{0,40})\"?,?\s{0,8}\Z", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class ToolVariant:
    """The properties of rocm-smi or hy-smi in which the two tools differ."""

    name: str
    vendor: str
    default_sensor: str
    is_from_other_tool: Callable[[ToolText], bool]  # returns whether the other tool printed the text
    other_tool: str  # the name of the other tool
    no_output: str
    gives: tuple[str, ...]


def tool_of(variant: ToolVariant) -> Tool:
    """Return rocm-smi or hy-smi as a `Tool` for `parser_of`."""
    return Tool(
        name=variant.name,
        vendor=variant.vendor,
        shapes=(
            _other_tool_shape(variant),
            _listing_shape(variant, lambda text: read_broken_json(text.joined), "json"),
            _listing_shape(variant, lambda text: read_csv(text.lines), "json"),
            _listing_shape(variant, lambda text: _read_tables(text.lines, variant.default_sensor), "text"),
            Shape(_read_processes, if_empty=always_accept),
            Shape(_read_versions, if_empty=always_accept),
        ),
        no_output=variant.no_output,
        errors=messages.ERRORS,
        words=messages.PLACEHOLDERS,
        wording=problem_by_text,
        quiet_statuses=messages.QUIET_STATUSES,
        checks_marks_first=False,
        # These checks precede the search for other tools' words, because rocm-smi prints some of Hygon's error lines.
        fallbacks=(_other_tool_fallback(variant), _report_on_error),
        late_fallbacks=(partial(_report_without_readings, tool=variant.name),),
        is_complaint=messages.is_complaint,
        finish=_add_sleep_messages,
    )


def _listing_shape(variant: ToolVariant, parse_listing: Callable[[ToolText], Listing | None], form: Form) -> Shape:
    def read(text: ToolText, draft: Draft) -> bool:
        listing = parse_listing(text)
        if (
            listing is not None
            and listing.system
            and not listing.cards
            and foreign_tool(text.joined, variant.name) is not None
        ):
            return False  # many tools print a line such as `Driver Version : 3.5.0`
        if listing is not None:
            read_cards(listing, variant.gives, draft)
            processes.read_amd_list(text.lines, draft)
        return listing is not None

    def report_no_cards(report: Report, text: ToolText, tool: Tool) -> Report:
        listing = parse_listing(text)
        if (listing is not None and listing.system) or processes.find_amd_list(text.lines) is not None:
            return replace(report, outcome="ok")
        problem = Problem("text", "the list of devices is empty")
        checked_report = report_no_devices(replace(report, problems=capped([*report.problems, problem])), text, tool)
        return error_report(text.lines, None, messages.ERRORS) or checked_report

    return Shape(read, form, report_no_cards)


def _other_tool_shape(variant: ToolVariant) -> Shape:
    """Return a shape that rejects the other tool's output."""

    def reject(_report: Report, _text: ToolText, _tool: Tool) -> Report:
        problem = Problem("text", f"this is output of {variant.other_tool}, not of {variant.name}")
        return Report("not_mine", problems=(problem,))

    return Shape(lambda text, _draft: variant.is_from_other_tool(text), if_empty=reject)


def _read_processes(text: ToolText, draft: Draft) -> bool:
    """Add the listed processes to the draft. Return False if the output has no list of processes."""
    lines = text.lines
    if not processes.read_amd_list(lines, draft):
        if not is_hygon_list(lines):
            return False
        read_hygon_list(lines, draft)
    if not any(messages.is_end_line(line.text) for line in lines):
        draft.add_problem(lines[-1].where, f"{NO_END_LINE}: {quote(lines[-1].text)}")
    return True


def _read_versions(text: ToolText, draft: Draft) -> bool:
    draft.index_space = ""
    draft.tool_version = _first_match(_VERSION, text.lines)
    library = _first_match(_LIBRARY, text.lines)
    if library is not None:
        draft.facts["library_version"] = library
    return draft.tool_version is not None or library is not None


def _first_match(pattern: re.Pattern[str], lines: Sequence[Line]) -> str | None:
    return next((match[1] for line in lines if line.ended and (match := pattern.match(line.text))), None)


def _other_tool_fallback(variant: ToolVariant) -> Fallback:
    def reject(output: Output, printed_lines: Sequence[Line]) -> Report | None:
        if not variant.is_from_other_tool(ToolText(lines(f"{output.text}\n{output.stderr}"))):
            return None
        first_line = next(line for line in printed_lines if line.text.strip())
        text = f"this is a message of {variant.other_tool}, not of {variant.name}: {quote(first_line.text)}"
        return Report("not_mine", problems=(Problem(first_line.where, text),))

    return reject


def _report_on_error(output: Output, lines: Sequence[Line]) -> Report | None:
    return error_report(lines, output.status, messages.ERRORS)


def _report_without_readings(output: Output, lines: Sequence[Line], tool: str) -> Report | None:
    """Report output without readings: notices, a banner, or table rows without headings."""
    printed_lines = [line for line in lines if line.text.strip()]
    first_line = printed_lines[0]
    if all(messages.is_notice(line.text) for line in printed_lines):
        return Report("no_devices", problems=(Problem(first_line.where, quote(first_line.text)),))
    if any(messages.is_banner(line.text) for line in printed_lines):
        return Report("no_devices", problems=(Problem(first_line.where, f"{tool} lists no devices"),))
    if not _BARE_ROW.match(first_line.text):
        return None
    text = "the headings of the table are missing, so its columns are unknown; save the whole output"
    reason: Reason = "exit_status" if output.status else "not_understood"
    return failed(reason, first_line.where, f"{text}: {quote(first_line.text)}")


def _add_sleep_messages(report: Report, output: Output) -> Report:
    """Add the tool's messages about sleeping cards if a card does not answer."""
    if report.outcome != "ok" or all(device.up for device in report.devices):
        return report
    sleep_lines = [line for line in ToolText((), output=output).all_lines if messages.is_sleep_message(line.text)]
    problems = [*report.problems, *(Problem(line.where, quote(line.text)) for line in sleep_lines)]
    return replace(report, problems=capped(problems))
