"""`telemetry config`: checks or prints the configuration, or prints a generated file."""

from __future__ import annotations

import argparse
import sys

from telemetry_daemon.commands import options
from telemetry_daemon.config.settings import RankSettings
from telemetry_daemon.terminal import exits, streams
from telemetry_daemon.terminal.exits import CommandError

EXAMPLES = {
    "telemetry config default > telemetry.toml": "Create a configuration file.",
    "telemetry config check --config telemetry.toml": "Check the file before use.",
    "telemetry config peaks roofline.csv --model 'AMD Instinct MI300X'": "Print a section with the peaks that rocprofiler-compute measured.",
}

_MAX_ROOFLINE_BYTES = 4 * 2**20


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments to the parser."""
    parser.add_argument(
        "action",
        metavar="check|show|default|peaks",
        choices=("check", "show", "default", "peaks"),
        help="`check` prints all errors. `show` prints the effective settings. `default` prints a file with every setting. "
        "`peaks` converts a roofline.csv of rocprofiler-compute to a section of the configuration file",
    )
    parser.add_argument("file", metavar="ROOFLINE", nargs="?", help="with peaks: the roofline.csv")
    parser.add_argument("--model", help="with peaks: the cards' model, spelled as in the label `model`")
    options.add_config(parser)
    options.add_setting_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the requested text and return the exit status."""
    from telemetry_daemon.config import file, table
    from telemetry_daemon.plugins.loading import load_parsers
    from telemetry_daemon.plugins.sources import find_parsers

    if arguments.action == "peaks":
        return _print_measured_peaks(arguments.file, arguments.model)
    if arguments.file is not None or arguments.model is not None:
        raise CommandError(f"ROOFLINE and --model are only for 'telemetry config peaks', not for '{arguments.action}'")
    if arguments.action == "default":
        sys.stdout.write(table.default_toml())
        return exits.OK
    loaded = file.load_with_origins(options.settings_inputs(arguments))
    with load_parsers(find_parsers(loaded.settings.parsers.paths)) as parser_set:
        options.check_sections(arguments, loaded.settings, parser_set.polls)
        options.warn_about_plugin_failures(parser_set)
    if loaded.settings.web.config_file:
        _check_web_config(loaded.settings.web.config_file)
    if loaded.settings.ranks.table:
        _check_rank_table(loaded.settings.ranks)
    if arguments.action == "show":
        sys.stdout.write(table.effective_toml(loaded.settings, loaded.origins))
    else:
        print("the configuration is valid")
    return exits.OK


def _print_measured_peaks(path: str | None, model: str | None) -> int:
    from telemetry_daemon.config import rules, table
    from telemetry_parsers.roofline import NoRooflineError, measured_peak

    if path is None or model is None:
        raise CommandError(
            "peaks needs a file and a model: telemetry config peaks roofline.csv --model 'AMD Instinct MI300X'"
        )
    try:
        heading = table.toml_key(("peaks", rules.check_model_name(model)))
        content = options.read_content(path, _MAX_ROOFLINE_BYTES, "use a readable roofline.csv")
        peak = measured_peak(content.decode("utf-8-sig", "replace").splitlines())
    except NoRooflineError as error:
        raise CommandError(f"'{path}': {error}; use the roofline.csv of rocprofiler-compute") from None
    except ValueError as error:
        raise CommandError(f"--model: {error}") from None
    entries: dict[str, object] = {"origin": peak.origin, "flops": {rate.dtype: rate.flops for rate in peak.rates}}
    if peak.memory_bytes_per_second is not None:
        entries["memory_bytes_per_second"] = peak.memory_bytes_per_second
    body = "".join(f"{key} = {table.toml_value(value)}\n" for key, value in entries.items())
    sys.stdout.write(f"[{heading}]\n{body}")
    return exits.OK


def _check_rank_table(settings: RankSettings) -> None:
    from telemetry_daemon.state import ranks
    from telemetry_parsers.vendors.ascend.rank_table import RankTableError

    try:
        node_ranks = ranks.read_ranks(settings, ranks.find_node_names)
    except FileNotFoundError:
        streams.say(f"rank_table: {settings.table}: the file does not exist yet")
    except (RankTableError, OSError) as error:
        text = f"rank_table: {settings.table}: {ranks.error_text(error)}"
        raise CommandError(text, status=exits.CONFIGURATION) from None
    else:
        streams.say(f"rank_table: {settings.table}: {node_ranks.summary}")


def _check_web_config(path: str) -> None:
    from telemetry_daemon.web.access.access_control import load_config
    from telemetry_daemon.web.addresses import WebError

    try:
        load_config(path)
    except WebError as error:
        raise CommandError(str(error), status=exits.CONFIGURATION) from None
