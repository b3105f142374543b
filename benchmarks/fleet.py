"""Measure what a fleet costs the servers that scrape it: hundreds of simulated nodes, a real Prometheus, a real VictoriaMetrics.

    python benchmarks/fleet.py                              # 240 nodes of 8 cards, nine minutes in all
    python benchmarks/fleet.py --quick                      # check that the benchmark runs; the figures mean little
    python benchmarks/fleet.py --nodes 480 --node 8xnvidia  # another fleet
    python benchmarks/fleet.py serve --nodes 20 FILE        # only serve the nodes; FILE lists them for file_sd

Every scrape sees a node fifteen simulated seconds later, however fast the scrapes are, so that two minutes with
a scrape every two seconds contain the samples of a quarter of an hour. docs/fleet.md has the figures.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

sys.path.extend(
    str(Path(__file__).resolve().parents[1] / name)
    for name in ("benchmarks", "daemon", "exporters", "grafana", "parsers", "tests")
)

from fleet_parts import density, queries, report, series
from fleet_parts.measure import Load, ServerCost, page_size, running_fleet, watched
from fleet_parts.nodes import STEP_SECONDS, make_fleet
from fleet_parts.servers import SERVERS, Disk, PrometheusWithRules, Server
from fleet_parts.serving import MAX_NODES, serve

from telemetry_daemon.simulate.demo import DemoError, parse_demo

KINDS = ("8xnvidia", "8xamd", "8xhygon", "8xmoorethreads", "8xascend")
COURSES_PER_KIND = 4
# Only results of runs without rules are extrapolated.
DENSITIES: Mapping[str, Callable[[tuple[str, ...], int, Path], Disk]] = {
    "prometheus": density.prometheus_disk,
    "victoria-metrics": density.victoria_metrics_disk,
}


def main(arguments: Sequence[str]) -> int:
    if arguments[:1] == ["serve"]:
        return serve_only(arguments[1:])
    options = measure_options(arguments)
    load = Load(options.nodes, tuple(options.node or KINDS), options.interval, options.seconds)
    chosen = [server for server in SERVERS if server.name in options.server]
    for server in [server for server in chosen if not server.is_installed()]:
        print(f"{server.title} is skipped, because it is not installed: apt-get install {server.package}")
        chosen.remove(server)
    with tempfile.TemporaryDirectory() as folder:
        measure(load, chosen, options.block_pages, Path(folder))
    return 0


def measure(load: Load, servers: Sequence[type[Server]], block_pages: int, folder: Path) -> None:
    rows = series.vendor_series()
    print(f"{report.machine()}\n\n{series.series_table(rows)}")
    outcomes: dict[str, ServerCost] = {}
    with running_fleet(Path(__file__), load, folder) as targets:
        kinds = len(load.kinds)
        sizes = {
            kind: page_size(targets[position::kinds][:10]) for position, kind in enumerate(load.kinds[: len(targets)])
        }
        print(report.page_table(sizes), flush=True)
        for server_class in servers:
            server = server_class(folder / server_class.name)
            with watched(server, load, targets) as outcomes[server_class.name]:
                if server_class is PrometheusWithRules:
                    print_query_costs(server, load)
    print(report.outcome_table(list(outcomes.values())), flush=True)
    disks = {
        name: DENSITIES[name](load.kinds, block_pages, folder / "blocks" / name)
        for name in outcomes
        if name in DENSITIES
    }
    print(report.density_table(disks, block_pages))
    for name, disk in disks.items():
        with_rules = outcomes.get(f"{name}-with-rules")
        title = (with_rules or outcomes[name]).title
        print(f"{title}\n\n{report.extrapolated(report.cost(outcomes[name], disk, with_rules), rows)}")


def print_query_costs(server: Server, load: Load) -> None:
    """Print the cost of the dashboards' and rules' queries on a server whose scraping was just measured."""
    # The count is 0 in the first minute, because rates over a short time are too low.
    print(f"{server.query_number('count(accelerator:power_watts:of_busy_peers)'):,.0f} cards count as busy\n")
    data = queries.stop_scraping(server, load.interval_seconds, load.seconds)
    print(f"{queries.board_costs(server, data)}\n{queries.rule_costs(server, data)}", flush=True)


def serve_only(arguments: Sequence[str]) -> int:
    """Serve a fleet until interrupted."""
    parser = argparse.ArgumentParser(prog="fleet.py serve", description="Serve simulated nodes, each at 127.1.x.y.")
    add_fleet_arguments(parser)
    parser.add_argument("--speed", type=float, default=1.0, help="simulated seconds in a second (default: 1)")
    parser.add_argument("targets", type=Path, help="the file for file_sd, written when all nodes listen")
    options = parser.parse_args(arguments)
    fleet = make_fleet(options.nodes, tuple(options.node or KINDS), COURSES_PER_KIND)
    with contextlib.suppress(KeyboardInterrupt):  # The user ends the command with Ctrl-C.
        asyncio.run(serve(fleet, STEP_SECONDS / options.speed, options.targets))
    return 0


def measure_options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_fleet_arguments(parser)
    names = [server.name for server in SERVERS]
    parser.add_argument("--server", action="append", choices=names, help="only this one; may be repeated")
    parser.add_argument("--interval", type=float, default=2.0, help="seconds between two scrapes (default: 2)")
    parser.add_argument("--seconds", type=float, default=120.0, help="how long each server is watched (default: 120)")
    parser.add_argument("--quick", action="store_true", help="20 nodes at most, 2 seconds")
    options = parser.parse_args(arguments)
    options.server = options.server or names
    options.block_pages = density.PAGES
    if options.quick:
        options.nodes, options.interval, options.seconds = min(options.nodes, 20), 1.0, 2.0
        options.block_pages = 16
    return options


def add_fleet_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--nodes", type=parse_node_count, default=240, help="how many nodes (default: 240)")
    parser.add_argument(
        "--node", type=parse_node_kind, action="append", help=f"a kind of node (default: {', '.join(KINDS)})"
    )


def parse_node_count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MAX_NODES:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {MAX_NODES}")
    return int(text)


def parse_node_kind(text: str) -> str:
    try:
        parse_demo(text)
    except DemoError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
