"""`telemetry metrics`: the metric catalogue as text or Markdown."""

from __future__ import annotations

import argparse

from telemetry_daemon.terminal import exits
from telemetry_exporters import metrics_doc


def configure(parser: argparse.ArgumentParser) -> None:
    """Which form."""
    parser.add_argument("--format", choices=("text", "markdown"), default="text", help="output format (default: text)")


def run(arguments: argparse.Namespace) -> int:
    """Print the catalogue."""
    text = metrics_doc.metrics_markdown() if arguments.format == "markdown" else metrics_doc.metrics_list()
    print(text, end="")
    return exits.OK
