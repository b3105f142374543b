"""What `telemetry snapshot` shows, whoever told it, and where the daemon of this node would be asked."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from telemetry_daemon.config.inputs import runtime_directory
from telemetry_daemon.terminal.exits import CommandError
from telemetry_parsers.model import Metric, Snapshot


@dataclass(frozen=True, slots=True)
class Answer:
    """A snapshot, who told it, and the metrics that plugins declare; `document` is the daemon's own, with those metrics, too.

    `command_lines` are those of its processes by pid, where this command itself may read them.
    """

    snapshot: Snapshot
    origin: str = ""
    metrics: tuple[Metric, ...] = ()
    document: Mapping[str, Any] | None = None
    command_lines: Mapping[int, str] = field(default_factory=dict)


class NotAskedError(CommandError):
    """A daemon runs on this node and does not answer this user; has the reason for each address that was tried."""


def local_socket(arguments: argparse.Namespace) -> str:
    """The path of the socket at which the daemon by this configuration answers, if it runs."""
    from telemetry_daemon.web.addresses import local_socket_in

    directory = runtime_directory(arguments.config, os.environ)
    if directory is None:
        from telemetry_daemon.commands import options

        directory = options.settings(arguments).state.runtime_directory
    return str(local_socket_in(directory))
