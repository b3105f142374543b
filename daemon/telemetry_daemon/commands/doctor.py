"""`telemetry doctor`: each source, where it was found, how it fares, and what to do about it."""

from __future__ import annotations

import argparse
import platform
import sys

from telemetry_daemon import exits, log
from telemetry_daemon.commands import options
from telemetry_daemon.node import RealNode
from telemetry_daemon.oneshot import OneShot
from telemetry_daemon.plugins.loading import Loaded, load
from telemetry_daemon.times import Clock
from telemetry_exporters.text import clean
from telemetry_parsers.model import Absent, Snapshot, SourceStatus

_TIMEOUT_SECONDS = 60.0
# What to do about a state and reason; the state alone where the reason makes no difference.
_REMEDIES = {
    "missing": "install the vendor's tool, or set sources.{source}.path",
    "disabled": "set sources.{source}.mode to use it",
    "suspended": "nothing: sleeping cards are left alone (sources.{source}.wake_suspended changes that)",
    "not_mine": "nothing: the tool of that name is another vendor's",
    "stuck": "look for a process in state D (ps -eo pid,stat,cmd); the driver may have to be reset or the node restarted",
    "no_devices": "nothing, if the node has no such card",
    "timeout": "run the tool by hand; raise sources.{source}.deadline if it is only slow",
    "no_permission": "run as root, or add the user to the groups that own the device files (often video and render)",
    "driver_gone": "load the vendor's driver (dmesg tells why it went)",
    "library_mismatch": "restart after a driver upgrade, so that library and kernel module are of one version",
    "not_understood": "send the output: telemetry record -o FILE",
    "exit_status": "run the tool by hand and see what it says",
    "too_much_output": "run the tool by hand and see what it says",
    "killed": "look into the kernel log for the reason (out of memory?)",
    "internal": "this is a bug of ours or of a plugin: report it",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """The configuration."""
    options.add_config(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print what is known of each source; 2 when one of them failed."""
    log.setup("error", "text")
    settings = options.settings(arguments)
    with load(settings.plugin_paths) as loaded:
        node = RealNode(loaded, Clock())
        shot = OneShot(platform.node(), node.sources(settings), Clock())
        try:
            snapshot = shot.read(("inventory", "fast", "slow"), _TIMEOUT_SECONDS)
        finally:
            shot.close()
        sys.stdout.write(_report(snapshot, loaded, node.pci_counts()))
    failed = loaded.failures or any(status.state in ("failed", "stuck") for status in snapshot.sources)
    return exits.PROBLEMS if failed else exits.OK


def _report(snapshot: Snapshot, loaded: Loaded, on_bus: dict[str, int]) -> str:
    origins = {item.parser.name: item.origin for item in loaded.parsers}
    lines = [line for status in snapshot.sources for line in _source_lines(status, snapshot, origins[status.source])]
    lines += [f"plugin {failure.plugin}: not loaded ({failure.origin}): {failure.text}" for failure in loaded.failures]
    found = ", ".join(f"{count} × {vendor}" for vendor, count in on_bus.items())
    lines.append(f"accelerators on the PCI bus: {found or 'none'}")
    return "".join(clean(line) + "\n" for line in lines)


def _source_lines(status: SourceStatus, snapshot: Snapshot, origin: str) -> list[str]:
    version = f", version {status.version}" if status.version else ""
    lines = [f"{status.source}: {status.state}{f' ({status.reason})' if status.reason else ''}{version}, {origin}"]
    lines += [
        f"  poll {poll.poll}: {poll.state}, {poll.seconds:.3f} s"
        for poll in status.polls
        if poll.state not in ("missing", "disabled")
    ]
    if status.detail:
        lines.append(f"  it says: {status.detail}")
    if status.state != "ok":
        remedy = _REMEDIES.get(status.reason or status.state, _REMEDIES.get(status.state, ""))
        lines.append("  what to do: " + remedy.format(source=status.source))
    lines += [f"  problem: {problem.where}: {problem.text}" for problem in status.problems if status.state == "ok"]
    lines += [f"  absent: {metric}: {reason}" for metric, reason in _absences(status.source, snapshot)]
    if status.unknown_fields:
        lines.append("  fields that no table knows: " + ", ".join(status.unknown_fields))
    return lines


def _absences(source: str, snapshot: Snapshot) -> list[tuple[str, str]]:
    """What the source could give and did not, once for all devices."""
    found = {
        (f"{reading.metric} {reading.label}".strip(), reading.value.value)
        for device in snapshot.devices
        for reading in device.readings
        if reading.source == source and isinstance(reading.value, Absent)
    }
    return sorted(found)
