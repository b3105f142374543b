"""`telemetry metrics`: prints the metric catalogue, or its equivalents in another exporter."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from telemetry_daemon.commands import options
from telemetry_daemon.terminal import exits
from telemetry_daemon.terminal.exits import CommandError
from telemetry_exporters.documents import metrics_doc
from telemetry_exporters.prometheus.compat import EXPORTERS

if TYPE_CHECKING:  # imported at run time only if another exporter's names are requested
    from telemetry_exporters.prometheus.compat.table import ExporterTable

EXAMPLES = {
    "telemetry metrics temperature": "Find a metric.",
    "telemetry metrics --names dcgm-exporter --dashboard 12239.json": "Check whether this node has the metrics of a dashboard.",
}

_MAX_DASHBOARD_BYTES = 16 << 20
_TIMEOUT_SECONDS = 5.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments to the parser."""
    parser.add_argument(
        "words", metavar="WORD", nargs="*", help="list only metrics whose name or help text contains these words"
    )
    parser.add_argument("--format", choices=("text", "markdown"), default="text", help="output format (default: text)")
    parser.add_argument(
        "--names",
        choices=tuple(EXPORTERS),
        metavar="EXPORTER",
        help=f"show the metric names of another exporter: {', '.join(EXPORTERS)}",
    )
    parser.add_argument(
        "--names-version", default="", metavar="VERSION", help="with --names: the release of that exporter, such as 4.9"
    )
    parser.add_argument(
        "--dashboard",
        metavar="FILE",
        help="with --names: show this Grafana dashboard's metrics, and whether the node reports them",
    )
    parser.add_argument("--node", metavar="NODE", help="with --dashboard: query another node's daemon")
    options.add_credentials(parser)
    options.add_config(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the metric catalogue, or the names that another exporter uses."""
    for flag, required_flag in (("names-version", "names"), ("dashboard", "names"), ("node", "dashboard")):
        if getattr(arguments, flag.replace("-", "_")) and getattr(arguments, required_flag) is None:
            raise CommandError(f"--{flag} needs --{required_flag}; see 'telemetry metrics --help'")
    if arguments.names is None:
        is_markdown = arguments.format == "markdown"
        print(metrics_doc.metrics_markdown() if is_markdown else _matching_lines(arguments.words), end="")
        return exits.OK
    from telemetry_exporters.prometheus.compat import doc, load_table, version_problem

    problem = version_problem(arguments.names, arguments.names_version)
    if problem:
        raise CommandError(f"--names-version: {problem}")
    table = load_table(arguments.names, arguments.names_version)
    if arguments.dashboard is None:
        print(doc.names_list(table), end="")
        return exits.OK
    return _print_comparison(arguments, table)


def _matching_lines(words: Sequence[str]) -> str:
    from telemetry_daemon.terminal.suggestions import did_you_mean, patterns_like
    from telemetry_parsers.metrics import CATALOGUE

    lines = metrics_doc.metrics_list().splitlines(keepends=True)
    matches = [line for line in lines if all(word.lower() in line.lower() for word in words)]
    if not matches:
        suggestions = [hint for word in words for hint in patterns_like(word, (metric.key for metric in CATALOGUE))]
        text = f"no metric matches '{' '.join(words)}'{did_you_mean(suggestions)}"
        raise CommandError(text, status=exits.NOTHING_FOUND)
    return "".join(matches)


def _print_comparison(arguments: argparse.Namespace, table: ExporterTable) -> int:
    from telemetry_exporters.prometheus.compat import doc
    from telemetry_exporters.prometheus.compat.doc import names_in_queries

    dashboard_names = names_in_queries(_read_dashboard(arguments.dashboard))
    if not dashboard_names:
        raise CommandError(f"{arguments.dashboard}: no query contains a metric; use a dashboard that Grafana exported")
    reported_names = _fetch_metric_names(arguments)
    print(doc.dashboard_list(table, dashboard_names, reported_names), end="")
    return exits.OK if reported_names.issuperset(dashboard_names) else exits.PROBLEMS


def _read_dashboard(path: str) -> object:
    content = options.read_content(path, _MAX_DASHBOARD_BYTES, "use a dashboard that Grafana exported")
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{path} is not valid JSON: {error}; use a dashboard that Grafana exported") from None


def _fetch_metric_names(arguments: argparse.Namespace) -> frozenset[str]:
    from telemetry_daemon.commands import daemons

    address = daemons.requested_address(arguments, "pass --node")
    query = f"?version={arguments.names_version}" if arguments.names_version else ""
    page = daemons.fetch(arguments, address, f"/metrics/{arguments.names}{query}", _TIMEOUT_SECONDS)
    lines = page.decode("utf-8", "replace").splitlines()
    return frozenset(line.partition("{")[0].partition(" ")[0] for line in lines if line[:1] not in ("#", ""))
