"""Arguments that several commands share, and the settings they give."""

from __future__ import annotations

import argparse
import os

from telemetry_daemon.config.inputs import ConfigInputs
from telemetry_daemon.settings import FLAGS, Settings

_HELP = {
    "log.level": "debug, info, warning or error",
    "log.format": "text or json",
    "web.listen_address": "where to serve, as HOST:PORT, [IPV6]:PORT, :PORT or unix:/path; may be given several times",
    "web.config_file": "the exporter-toolkit's web configuration: TLS, users, headers",
    "web.telemetry_path": "where the metrics are",
}
_REPEATABLE = frozenset({"web.listen_address"})


def add_config(parser: argparse.ArgumentParser) -> None:
    """`--config`."""
    parser.add_argument("--config", metavar="FILE", help="default: $TELEMETRY_CONFIG or /etc/telemetry/telemetry.toml")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """A flag for each setting that has one."""
    for setting, flag in FLAGS.items():
        action = "append" if setting in _REPEATABLE else "store"
        parser.add_argument(flag, dest=setting, action=action, metavar="VALUE", help=_HELP[setting])


def inputs(arguments: argparse.Namespace) -> ConfigInputs:
    """What the settings are to be made from."""
    given = vars(arguments)
    overrides = {setting: given[setting] for setting in FLAGS if given.get(setting) is not None}
    return ConfigInputs(path=arguments.config, environment=dict(os.environ), overrides=overrides)


def settings(arguments: argparse.Namespace) -> Settings:
    """The settings in force. Raises ConfigError."""
    from telemetry_daemon.config import file

    return file.load(inputs(arguments))
