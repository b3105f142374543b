"""AMD's and Hygon's cards through the files of their drivers."""

from __future__ import annotations

import errno
from collections.abc import Sequence

from telemetry_parsers.contract import SourceParser
from telemetry_parsers.model import Capture, Output, Problem, Report
from telemetry_parsers.text.answers import capped, failed, not_read
from telemetry_parsers.text.lines import MOST_LINES, Line, foreign_tool, lines, quote
from telemetry_parsers.text.prefixes import without_prefix
from telemetry_parsers.vendors.amd.amdgpu_sysfs.cards import read_cards
from telemetry_parsers.vendors.amd.amdgpu_sysfs.found import Found
from telemetry_parsers.vendors.amd.amdgpu_sysfs.kfd import read_nodes, read_processes
from telemetry_parsers.vendors.amd.amdgpu_sysfs.polls import POLLS
from telemetry_parsers.vendors.amd.amdgpu_sysfs.saved import saved_files
from telemetry_parsers.vendors.amd.amdgpu_sysfs.topology import cut_off, nodes_of
from telemetry_parsers.vendors.amd.amdgpu_sysfs.tree import is_folder, tree_of

SOURCE = "amdgpu-sysfs"
# Whole folders of all cards of a node are some ten thousand lines.
_MOST_LINES = 5 * MOST_LINES


def parse(capture: Capture) -> Report:
    """What the drivers' files say: devices and readings, or the reason why there are none."""
    refusal = not_read(capture)
    if refusal is not None:
        return refusal
    outputs = _files(capture.outputs)
    if isinstance(outputs, Report):
        return outputs
    tree, found = tree_of(outputs), Found()
    nodes = nodes_of(tree)
    awake = read_cards(tree, found)
    read_nodes(nodes, awake, found)
    read_processes(tree, nodes, found)
    forbidden = [output for output in outputs if output.status in (errno.EPERM, errno.EACCES)]
    if not found.devices and forbidden:
        return failed("no_permission", forbidden[0].name, "may not be read; run it as a user who may read /sys")
    return Report(
        outcome="ok" if found.devices else "no_devices",
        devices=tuple(found.devices),
        readings=tuple(found.readings()),
        processes=tuple(found.processes),
        problems=capped([*found.problems(), *cut_off(tree)]),
        unknown_fields=tuple(found.unknown),
        form="data",
    )


def _files(outputs: Sequence[Output]) -> list[Output] | Report:
    """The files of a capture; of a text that was saved, the files in it."""
    texts = [output for output in outputs if not output.name.startswith("/sys/") and output.data is None]
    if not texts:
        return list(outputs)
    text = "\n".join(part for output in texts for part in (output.text, output.stderr) if part)
    if text.count("\n") > _MOST_LINES:
        return failed("not_understood", "text", "far more lines than any node has files")
    printed = lines(text)
    saved = _saved(printed)
    if not saved and (bare := without_prefix(printed)) != printed:
        saved = _saved(bare)
    if saved:
        return saved
    foreign = next((tool for output in texts if (tool := foreign_tool(output.text, SOURCE)) is not None), None)
    if foreign is not None:
        return Report("not_mine", problems=(Problem("text", f"this is output of {foreign}, not files of a driver"),))
    first = next((line for line in text.splitlines() if line.strip()), "")
    what = "no output" if not first else f"no file of AMD's or Hygon's cards or of KFD's topology in it: {quote(first)}"
    return failed("not_understood", "text", what)


def _saved(printed: Sequence[Line]) -> list[Output]:
    """The files in a text, empty when none of them is a card's or a node's.

    A path that ends at the card is the beginning of a longer one, where the text was cut.
    """
    saved = [output for output in saved_files(printed) if not is_folder(output.name)]
    tree = tree_of(saved)
    return saved if tree.nodes or any(card.vendor for card in tree.cards.values()) else []


PARSER = SourceParser(
    name=SOURCE,
    vendor="amd",
    gives=(
        "suspended", "temperature_celsius", "temperature_critical_celsius", "temperature_shutdown_celsius", "power_watts",
        "power_average_watts", "power_instant_watts", "power_cap_watts", "power_cap_default_watts", "power_cap_max_watts",
        "power_cap_min_watts", "energy_joules_total", "memory_used_bytes", "memory_total_bytes", "memory_activity_ratio",
        "utilization_ratio", "engine_utilization_ratio", "clock_hertz", "clock_max_hertz", "throttled", "fan_ratio",
        "fan_rpm", "voltage_volts", "memory_gtt_total_bytes", "memory_gtt_used_bytes", "ecc_deferred_total",
        "performance_level", "pcie_link_generation", "pcie_link_generation_max", "pcie_link_width",
        "pcie_link_width_max", "pcie_replays_total", "ecc_enabled", "ecc_corrected_total", "ecc_uncorrected_total",
        "retired_pages", "retired_pages_pending", "compute_units", "processes",
    ),
    polls=POLLS,
    parse=parse,
)  # fmt: skip
