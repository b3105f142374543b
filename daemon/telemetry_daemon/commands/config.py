"""`telemetry config check|show|default`: the configuration checked, in force, or as a commented file."""

from __future__ import annotations

import argparse
import sys

from telemetry_daemon.commands import options
from telemetry_daemon.config.settings import RankSettings
from telemetry_daemon.terminal import exits
from telemetry_daemon.terminal.exits import CommandError


def configure(parser: argparse.ArgumentParser) -> None:
    """What to do."""
    parser.add_argument(
        "what",
        metavar="check|show|default",
        choices=("check", "show", "default"),
        help="check: print what is wrong; show: print the settings in force; default: print a file with every setting",
    )
    options.add_config(parser)
    options.add_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the answer; 78 for a configuration that cannot be used."""
    from telemetry_daemon.config import file, text
    from telemetry_daemon.plugins.loading import load
    from telemetry_daemon.plugins.sources import find

    if arguments.what == "default":
        sys.stdout.write(text.default_toml())
        return exits.OK
    loaded = file.load_with_origins(options.inputs(arguments))
    with load(find(loaded.settings.parsers.paths)) as parsers:
        options.check_names(arguments, loaded.settings, parsers.polls)
        options.tell_failures(parsers)
    if loaded.settings.web.config_file:
        _check_web(loaded.settings.web.config_file)
    if loaded.settings.ranks.table:
        _check_rank_table(loaded.settings.ranks)
    if arguments.what == "show":
        sys.stdout.write(text.show_toml(loaded.settings, loaded.origins))
    else:
        print("the configuration is valid")
    return exits.OK


def _check_rank_table(settings: RankSettings) -> None:
    """Print what the rank table says of this node; a file that is not there yet is no error."""
    from telemetry_daemon.ranks import table as rank_table
    from telemetry_daemon.ranks import watch as ranks
    from telemetry_parsers.vendors.ascend.rank_table import RankTableError

    try:
        ranks_here = rank_table.read(settings, ranks.names_of_node)
    except FileNotFoundError:
        sys.stderr.write(f"telemetry: rank_table: {settings.table}: there is no such file yet\n")
    except (RankTableError, OSError) as error:
        text = f"rank_table: {settings.table}: {ranks.error_text(error)}"
        raise CommandError(text, status=exits.CONFIGURATION) from None
    else:
        sys.stderr.write(f"telemetry: rank_table: {settings.table}: {ranks_here.text}\n")


def _check_web(path: str) -> None:
    from telemetry_daemon.web.access.access_control import load_rules
    from telemetry_daemon.web.errors import WebError

    try:
        load_rules(path)
    except WebError as error:
        raise CommandError(str(error), status=exits.CONFIGURATION) from None
