"""What our daemon costs beside what one would run or write instead: one table, and the goals with what was measured.

    make bench                               all of it, at most twenty minutes
    make bench ARGS=--quick                  one short round of each, for a look
    make bench ARGS="--only nvidia,idle"     parts of it
    make bench ARGS="--against old=../old"   another checkout of ours in every row, under the name `old`
    make bench ARGS="--into docs/performance.md"   put the tables there, between the lines that say so

All who read NVML load copies of the same fake library (tests/nvml_fake), whose numbers move; it answers from memory. What a
driver takes is in the figures of the parts `h200` and `rtx4090` only, by the table tests/nvml_fake/costs.toml. nvmlDeviceGetPcieThroughput takes 20 ms, as in a driver.
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
from side_by_side.contestants import Contestant, NotServingError, Plan, in_turns, serving, together
from side_by_side.goals import Results
from side_by_side.installs import Missing
from side_by_side.measured import Spread
from side_by_side.nodes import NODES, Asked, Node
from side_by_side.options import QUICK, THOROUGH, Extent
from side_by_side.ours import THIS, Checkout

COMMANDS = "commands"
_BEGIN, _END = "<!-- make bench: begin -->", "<!-- make bench: end -->"


def main() -> None:
    """Print the tables, and write them where that is asked for."""
    given = arguments()
    asked = Asked((THIS, *given.against), given.build)
    measured_on = f"Measured on {tables.machine()} Order drawn from seed {given.seed}."
    print(measured_on, flush=True)
    results = run(given.only, asked, QUICK if given.quick else THOROUGH, random.Random(given.seed))
    told = "\n\n".join(texts(results, given.only, asked))
    print(f"\n{told}")
    if given.into:
        put_into(given.into, f"{measured_on}\n\n{told}")


def run(parts: Sequence[str], asked: Asked, extent: Extent, dice: random.Random) -> Results:
    """What these parts give."""
    at_once, alone = {}, {}
    for node in NODES:
        if node.word not in parts:
            continue
        plan = Plan(extent.rounds, extent.seconds(node.seconds), node.pace)
        with tempfile.TemporaryDirectory() as folder, told_if_it_fails(node):
            there = contestants_on(node, Path(folder), asked)
            at_once[node.word] = together(there, plan, dice)
            if node.alone:
                alone[node.word] = in_turns(there, replace(plan, seconds=extent.seconds(node.alone)), dice)
    return Results(at_once, alone, commands.timed(asked.trees, extent.starts, dice) if COMMANDS in parts else {})


@contextmanager
def told_if_it_fails(node: Node) -> Iterator[None]:
    """One part that fails does not take what the others measured with it."""
    try:
        yield
    except (NotServingError, OSError) as error:
        print(f"{node.title} was not measured to its end: {error}", flush=True)


def contestants_on(node: Node, folder: Path, asked: Asked) -> list[Contestant]:
    """Those that serve there; the others are named."""
    there: list[Contestant] = []
    for each in node.contestants(folder, asked):
        if isinstance(each, Missing):
            print(each, flush=True)
        else:
            there.append(each)
    found = serving(there)
    print(f"{node.title}: {', '.join(each.name for each in found)}", file=sys.stderr, flush=True)
    return found


def arguments() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words = [*(node.word for node in NODES), COMMANDS]
    parser.add_argument("--quick", action="store_true", help="one short round: for a look, not for figures")
    parser.add_argument("--only", type=lambda text: text.split(","), default=words, help=f"of {','.join(words)}")
    parser.add_argument("--against", type=checkout, action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--build", action="store_true", help="build all-smi with cargo where it is not there")
    parser.add_argument("--into", type=Path, metavar="FILE", help="a page between whose two marks the tables go")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="for the same order again")
    given = parser.parse_args()
    unknown = set(given.only) - set(words)
    if unknown:
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(words)}")
    return given


def checkout(text: str) -> Checkout:
    """NAME=PATH as another tree of ours."""
    name, _, path = text.partition("=")
    folder = Path(path).resolve()
    if not name or not (folder / "daemon" / "telemetry_daemon").is_dir():
        raise argparse.ArgumentTypeError(f"{text}: not NAME=PATH of a checkout")
    return Checkout(f"telemetry {name}", folder)


def texts(results: Results, parts: Sequence[str], asked: Asked) -> Iterator[str]:
    """The one table, the commands, and the goals."""
    yield tables.table(("", *(figure.words for figure in measured.COLUMNS)), lines(results))
    if results.commands:
        rows = ((f"{words} {name}".strip(), cell(took)) for (words, name), took in results.commands.items())
        yield tables.table(("command", "wall, ms"), rows)
    trees = [tree.name for tree in asked.trees]
    yield tables.table(("goal", "wanted", *trees, ""), goals.rows(results, parts, trees))


def put_into(page: Path, told: str) -> None:
    """Write the tables between the two marks of a page."""
    head, begin, rest = page.read_text("utf-8").partition(_BEGIN)
    _, end, tail = rest.partition(_END)
    if not begin or not end:
        raise SystemExit(f"{page} has no {_BEGIN} … {_END}")
    page.write_text(f"{head}{_BEGIN}\n{told}\n{_END}{tail}", "utf-8")


def lines(results: Results) -> Iterator[list[str]]:
    """A line for each node and how its contestants ran, and one for each contestant."""
    for node in NODES:
        for how, found in (("at once", results.at_once), ("in turns", results.alone)):
            if node.word not in found:
                continue
            title = f"**{node.title}**" + (f", {how}" if node.alone else "")
            yield [title, *("" for _ in measured.COLUMNS)]
            for name, rounds in found[node.word].items():
                yield [name, *(cell(measured.spread(figure, rounds)) for figure in measured.COLUMNS)]


def cell(found: Spread | None) -> str:
    """The middle one, and in brackets from which to which the rounds went."""
    if found is None:
        return ""
    middle, least, most = map(tables.number, (found.middle, found.least, found.most))
    return middle if least == most else f"{middle} ({least}–{most})"


if __name__ == "__main__":
    main()
