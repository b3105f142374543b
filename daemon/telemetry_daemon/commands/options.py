"""Arguments that several commands share, and the settings made from them."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from telemetry_daemon.config.inputs import DEFAULT_FILE, FILE_VARIABLE
from telemetry_exporters.text import clean

if TYPE_CHECKING:  # the help and `snapshot` of a daemon need none of it
    from telemetry_daemon.config.inputs import ConfigInputs
    from telemetry_daemon.config.settings import Settings
    from telemetry_daemon.plugins.candidates import PluginFailure
    from telemetry_daemon.plugins.loading import Loaded

USER_VARIABLE, PASSWORD_VARIABLE = "TELEMETRY_USER", "TELEMETRY_PASSWORD"  # the name of a variable
# How a snapshot may be shown.
FORMATS = ("table", "json", "csv", "prometheus")
_REPEATABLE = frozenset({"web.listen_address"})


def add_config(parser: argparse.ArgumentParser) -> None:
    """`--config`."""
    where = f"${FILE_VARIABLE}, or {DEFAULT_FILE}"
    parser.add_argument("--config", metavar="FILE", help=f"configuration file (default: {where})")


def add_credentials(parser: argparse.ArgumentParser) -> None:
    """What a daemon may want of a client. A password is never an argument: everybody on the node could read it."""
    parser.add_argument("--ca", metavar="FILE", default="", help="certificates to trust, for https")
    parser.add_argument(
        "--password-file",
        metavar="FILE",
        help=f"file with USER:PASSWORD (default: ${USER_VARIABLE} and ${PASSWORD_VARIABLE})",
    )


def add_source(parser: argparse.ArgumentParser, verb: str) -> None:
    """`--source`, which says what to do with only this source."""
    text = f"{verb} only this source; may be given several times"
    parser.add_argument("--source", action="append", default=[], metavar="NAME", help=text)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """A flag for each setting that has one."""
    from telemetry_daemon.config.settings import DEFAULT_ADDRESS, FLAGS

    help_of = {
        "log.level": "debug, info, warning or error (default: info)",
        "log.format": "text or json (default: text)",
        "web.listen_address": (
            f"where to listen: HOST:PORT, :PORT, [IPV6]:PORT or unix:/PATH; may be given several times (default: {DEFAULT_ADDRESS})"
        ),
        "web.config_file": "web configuration file of the exporter-toolkit: TLS, passwords, headers",
        "web.telemetry_path": "path of the metrics page (default: /metrics)",
    }
    for setting, flag in FLAGS.items():
        action = "append" if setting in _REPEATABLE else "store"
        parser.add_argument(flag, dest=setting, action=action, metavar="VALUE", help=help_of[setting])


def inputs(arguments: argparse.Namespace) -> ConfigInputs:
    """What the settings are made from: file, environment and flags."""
    from telemetry_daemon.config.inputs import ConfigInputs
    from telemetry_daemon.config.settings import FLAGS

    values = vars(arguments)
    overrides = {setting: values[setting] for setting in FLAGS if values.get(setting) is not None}
    return ConfigInputs(path=arguments.config, environment=dict(os.environ), overrides=overrides)


def settings(arguments: argparse.Namespace) -> Settings:
    """The settings in force. Raises ConfigError."""
    from telemetry_daemon.config import file

    return file.load(inputs(arguments))


def check_names(arguments: argparse.Namespace, settings: Settings, polls: Mapping[str, tuple[str, ...]]) -> None:
    """Refuse settings of a source or poll that no parser has. Raises ConfigError."""
    if not settings.all_known(polls, polls):
        from telemetry_daemon.config import file

        file.load(replace(inputs(arguments), known_sources=tuple(sorted(polls)), known_polls=polls))


def tell_failures(loaded: Loaded) -> None:
    """Say on standard error which plugins were not loaded."""
    for failure in loaded.failures:
        sys.stderr.write(f"telemetry: {clean(failure_text(failure))}\n")


def failure_text(failure: PluginFailure) -> str:
    """Which plugin was not loaded, where it is from, and why."""
    origin = "" if failure.origin == failure.plugin else f" of {failure.origin}"
    return f"plugin {failure.plugin}{origin}: not loaded: {failure.text}"
