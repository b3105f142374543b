"""Compare the cost of the daemon with that of alternatives: one table of measurements, and the goals with their results.

    make bench                               all parts, at most twenty minutes
    make bench ARGS=--quick                  one short round of each, for a first look
    make bench ARGS="--only nvidia,idle"     some of the parts
    make bench ARGS="--against old=../old"   another checkout of the project in every row, under the name `old`
    make bench ARGS="--into docs/performance.md"   write the tables between the two marker lines of the page

All readers of NVML load copies of the same fake library (tests/nvml_fake), whose values change and which answers from memory.
Driver time is included in the parts `h200` and `rtx4090` only, from tests/nvml_fake/costs.toml.
nvmlDeviceGetPcieThroughput takes 20 ms, as in a driver.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from side_by_side import commands, goals, measured, tables
from side_by_side.contestants import Contestant, NotServingError, Plan, run_in_turns, run_together, working_contestants
from side_by_side.goals import Results
from side_by_side.installs import MissingPeer
from side_by_side.measured import Spread
from side_by_side.nodes import NODES, BuildOptions, Node
from side_by_side.options import QUICK, THOROUGH, Extent
from side_by_side.ours import THIS, Checkout

COMMANDS = "commands"
_BEGIN, _END = "<!-- make bench: begin -->", "<!-- make bench: end -->"


def main() -> None:
    """Print the tables, and write them into a page if --into names one."""
    options = arguments()
    build_options = BuildOptions((THIS, *options.against), options.build)
    measured_on = f"Measured on {tables.machine()} Order drawn from seed {options.seed}."
    print(measured_on, flush=True)
    results = run(options.only, build_options, QUICK if options.quick else THOROUGH, random.Random(options.seed))
    text = "\n\n".join(report_sections(results, options.only, build_options))
    print(f"\n{text}")
    if options.into:
        write_between_marks(options.into, f"{measured_on}\n\n{text}")


def run(parts: Sequence[str], build_options: BuildOptions, extent: Extent, rng: random.Random) -> Results:
    at_once, alone = {}, {}
    for node in NODES:
        if node.name not in parts:
            continue
        plan = Plan(extent.rounds, extent.seconds(node.seconds), node.pace)
        with tempfile.TemporaryDirectory() as folder, reporting_failure(node):
            contestants = contestants_on(node, Path(folder), build_options)
            at_once[node.name] = run_together(contestants, plan, rng)
            if node.alone_seconds:
                alone[node.name] = run_in_turns(
                    contestants, replace(plan, seconds=extent.seconds(node.alone_seconds)), rng
                )
    return Results(
        at_once, alone, commands.command_times(build_options.checkouts, extent.starts, rng) if COMMANDS in parts else {}
    )


@contextmanager
def reporting_failure(node: Node) -> Iterator[None]:
    """Report the failure of a node's measurement, so that the results of the other nodes are kept."""
    try:
        yield
    except (NotServingError, OSError) as error:
        print(f"{node.title} was not measured completely: {error}", flush=True)


def contestants_on(node: Node, folder: Path, build_options: BuildOptions) -> list[Contestant]:
    """Return the contestants that can serve, and print the reasons for those that cannot."""
    available: list[Contestant] = []
    for contestant in node.contestants(folder, build_options):
        if isinstance(contestant, MissingPeer):
            print(contestant, flush=True)
        else:
            available.append(contestant)
    started = working_contestants(available)
    print(f"{node.title}: {', '.join(program.name for program in started)}", file=sys.stderr, flush=True)
    return started


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    part_names = [*(node.name for node in NODES), COMMANDS]
    parser.add_argument("--quick", action="store_true", help="one short round, for a first look")
    parser.add_argument(
        "--only", type=lambda text: text.split(","), default=part_names, help=f"parts to run, of {','.join(part_names)}"
    )
    parser.add_argument("--against", type=parse_checkout, action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--build", action="store_true", help="build all-smi with cargo if it is missing")
    parser.add_argument(
        "--into", type=Path, metavar="FILE", help="the page into which the tables are written, between its two marks"
    )
    parser.add_argument(
        "--seed", type=int, default=random.randrange(10**6), help="the seed of an earlier run, to repeat its order"
    )
    options = parser.parse_args()
    unknown = set(options.only) - set(part_names)
    if unknown:
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(part_names)}")
    return options


def parse_checkout(text: str) -> Checkout:
    """Return the checkout that NAME=PATH describes."""
    name, _, path = text.partition("=")
    folder = Path(path).resolve()
    if not name or not (folder / "daemon" / "telemetry_daemon").is_dir():
        raise argparse.ArgumentTypeError(f"{text}: expected NAME=PATH of a checkout")
    return Checkout(f"telemetry {name}", folder)


def report_sections(results: Results, parts: Sequence[str], build_options: BuildOptions) -> Iterator[str]:
    """Yield the table of contestants, the table of commands, and the goals."""
    yield tables.table(("", *(figure.heading for figure in measured.COLUMNS)), result_rows(results))
    if results.commands:
        rows = ((command, name, cell(times)) for (command, name), times in results.commands.items())
        yield tables.table(("command", "checkout", "wall, ms"), rows)
    checkouts = [checkout.name for checkout in build_options.checkouts]
    yield tables.table(("goal", "limit", *checkouts, ""), goals.rows(results, parts, checkouts))


def write_between_marks(page: Path, text: str) -> None:
    """Write the tables between the two marks of a page."""
    head, begin, rest = page.read_text("utf-8").partition(_BEGIN)
    _, end, tail = rest.partition(_END)
    if not begin or not end:
        raise SystemExit(f"{page} has no {_BEGIN} … {_END}")
    page.write_text(f"{head}{_BEGIN}\n{text}\n{_END}{tail}", "utf-8")


def result_rows(results: Results) -> Iterator[list[str]]:
    """Yield a heading row for each node and mode, and a row for each contestant."""
    for node in NODES:
        for mode, rounds_by_node in (("at once", results.at_once), ("in turns", results.alone)):
            if node.name not in rounds_by_node:
                continue
            title = f"**{node.title}**" + (f", {mode}" if node.alone_seconds else "")
            yield [title, *("" for _ in measured.COLUMNS)]
            for name, rounds in rounds_by_node[node.name].items():
                yield [name, *(cell(measured.spread(figure, rounds)) for figure in measured.COLUMNS)]


def cell(spread: Spread | None) -> str:
    """Return the median of the rounds, followed by their range in brackets."""
    if spread is None:
        return ""
    median, low, high = map(tables.number, (spread.median, spread.low, spread.high))
    return median if low == high else f"{median} ({low}–{high})"


if __name__ == "__main__":
    main()
