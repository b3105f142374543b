"""Examines a node for `telemetry doctor`, and prints or bundles the result."""

from __future__ import annotations

import argparse
import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from telemetry_daemon.commands import daemons, options
from telemetry_daemon.config.file import LoadedConfig, load_with_origins, path_of
from telemetry_daemon.config.inputs import ConfigError
from telemetry_daemon.config.settings import Settings, settings_hash
from telemetry_daemon.doctor import bundle as bundles
from telemetry_daemon.doctor import daemon, examination, limits, machine, sources
from telemetry_daemon.doctor.daemon import LocalDaemon
from telemetry_daemon.doctor.document import document
from telemetry_daemon.doctor.examination import Examination
from telemetry_daemon.doctor.findings import Finding, counted
from telemetry_daemon.doctor.members import BundleMaterial, add_members
from telemetry_daemon.masking.mask import Mask, local_names
from telemetry_daemon.plugins.loading import load_parsers
from telemetry_daemon.plugins.sources import find_parsers
from telemetry_daemon.remote.http_client import NodeError
from telemetry_daemon.state.flights import FlightFile, list_flights
from telemetry_daemon.terminal import exits, streams
from telemetry_daemon.terminal.exits import CommandError
from telemetry_daemon.version import __version__
from telemetry_exporters.documents import json_values
from telemetry_exporters.text import clean

_PLUGIN_REMEDY = "fix the plugin or its dependencies, or remove it from parsers.paths; see docs/writing-a-parser.md"


def create_report(arguments: argparse.Namespace, root: Path) -> tuple[str, int]:
    """Examine a node. Return the report, and the number of findings."""
    if arguments.node is not None:
        examined = _examine_other_node(arguments)
    else:
        examined = _examine_this_node(arguments, root, options.load_settings(arguments))[0]
    if arguments.format == "json":
        return json_values.indented_json(document(examined)), len(examined.findings)
    lines = examination.text_lines(examined, clean, show_all=arguments.all)
    return "".join(f"{line}\n" for line in lines), len(examined.findings)


def write_bundle(arguments: argparse.Namespace, root: Path) -> tuple[str, int]:
    """Write a bundle. Return its list of contents, and the number of findings."""
    try:
        bundles.check_path(arguments.bundle)
        material = _collect_material(arguments, root)
        identities = {*local_names(), machine.current_user(), *machine.group_names(machine.FIRST_USER_GROUP)}
        mask = Mask(secrets.token_bytes(32), identities)
        bundle = bundles.Bundle(mask)
        add_members(bundle, mask, material)
        snapshot_time = material.examined.snapshot.wall_time
        heading = _bundle_heading(snapshot_time, mask)
        archive = bundle.to_archive(heading, snapshot_time)
        bundles.write_file(arguments.bundle, archive)
    except bundles.BundleError as error:
        raise CommandError(str(error), status=exits.UNAVAILABLE) from None
    finding_count = len(material.examined.findings)
    summary = f"written to {clean(str(arguments.bundle))}: {len(archive):,} bytes, {counted(finding_count, 'finding')}"
    return f"{bundle.contents(heading)}{summary}\n", finding_count


def _examine_other_node(arguments: argparse.Namespace) -> Examination:
    (address,) = daemons.addresses([arguments.node], None)
    try:
        return examination.examine_remote(daemon.request_view(address, daemons.read_credentials(arguments)))
    except NodeError as error:
        raise CommandError(f"{address.name}: {error}", status=exits.UNAVAILABLE) from None


def _examine_this_node(
    arguments: argparse.Namespace, root: Path, settings: Settings, configuration_findings: Sequence[Finding] = ()
) -> tuple[Examination, sources.PolledSources]:
    with load_parsers(find_parsers(settings.parsers.paths)) as parser_set:
        options.check_sources(sorted(arguments.source), [loaded.parser.name for loaded in parser_set.parsers])
        if not configuration_findings:
            options.check_sections(arguments, settings, parser_set.polls)
        polled = sources.poll_sources(parser_set, settings, arguments.source, root, streams.show_waiting)
        plugin_findings = [
            Finding("plugins", options.plugin_failure_text(failure), _PLUGIN_REMEDY) for failure in parser_set.failures
        ]
    local_daemon = LocalDaemon() if arguments.source else _probe_local_daemon(arguments, settings)
    examined = Examination(
        snapshot=polled.snapshot,
        examined_sources=polled.examined_sources,
        machine=machine.read_machine(root, os.environ),
        limits=limits.read_limits(root, local_daemon.unit),
        folders=limits.read_folders(settings),
        daemon=local_daemon,
        listings=polled.listings,
        earlier_findings=(*configuration_findings, *plugin_findings),
        flights=_list_flight_files(settings.state.directory),
        expected=settings.expect.devices,
        owners_are_shown=settings.attribution.enabled,
        is_partial=bool(arguments.source),
    )
    return examination.examine(examined), polled


def _probe_local_daemon(arguments: argparse.Namespace, settings: Settings) -> LocalDaemon:
    unit, own_hash = daemon.read_unit(), settings_hash(settings)
    local_daemon = LocalDaemon(unit=unit, command_settings_hash=own_hash, command_version=__version__)
    credentials, page_path = daemons.read_credentials(arguments), settings.web.telemetry_path
    return daemon.probe(daemons.local_addresses(settings), credentials, page_path, local_daemon)


def _list_flight_files(state_directory: str) -> tuple[FlightFile, ...]:
    try:
        return list_flights(state_directory)
    except OSError:  # another finding reports that the folder cannot be read
        return ()


def _collect_material(arguments: argparse.Namespace, root: Path) -> BundleMaterial:
    """Collect the data for a bundle. Errors in the configuration become findings."""
    inputs, credentials = options.settings_inputs(arguments), daemons.read_credentials(arguments)
    try:
        config = load_with_origins(inputs)
        return BundleMaterial(*_examine_this_node(arguments, root, config.settings), config, root, credentials)
    except ConfigError as error:
        remedy = "correct the configuration, and check it with `telemetry config check`"
        findings = [Finding("configuration", line, remedy) for line in error.lines]
        config = LoadedConfig(Settings(), path_of(inputs), {})
        examined = _examine_this_node(arguments, root, config.settings, findings)
        return BundleMaterial(*examined, config, root, credentials)


def _bundle_heading(snapshot_time: float, mask: Mask) -> str:
    return (
        f"telemetry doctor --bundle, by telemetry {__version__}, {json_values.utc_time(snapshot_time)}\n"
        f"{mask.value_count} values that may identify this node, its cards or its users are consistently replaced with stand-ins.\n"
        "The files of the flight recorder have different stand-ins, because they were masked when they were written.\n"
        "Check the bundle before you send it. docs/troubleshooting.md describes what is masked and what cannot be masked."
    )
