"""Measure the memory of imports, of many polls, and of the history.

python benchmarks/memory.py [--quick]
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

from side_by_side import processes, tables
from side_by_side.options import QUICK, parse_extent

from telemetry_daemon.readers.base import Targets
from telemetry_daemon.simulate.demo import parse_demo
from telemetry_daemon.simulate.source import simulated_sources
from telemetry_daemon.state.accumulate import Accumulator
from telemetry_daemon.state.health import SourceFacts, result_of
from telemetry_daemon.state.history import History
from telemetry_daemon.state.store import Store
from telemetry_daemon.times import Clock
from telemetry_exporters.prometheus.renderer import Renderer
from telemetry_parsers.past import SLOT_SECONDS, SLOTS

_AS_SERVE_DOES = (
    "from telemetry_daemon.service.unused_imports import replace_unused_imports\nwith replace_unused_imports(): import "
)
# Maps programs to the code that imports them.
IMPORTS = {
    "nothing": "import sys",
    **{
        name: f"import {name}"
        for name in ("asyncio, ssl", "h11", "prometheus_client", "psutil", "pydantic", "pynvml", "importlib.metadata")
    },
    "asyncio, as the daemon imports it": f"{_AS_SERVE_DOES} asyncio",
    "apscheduler": "import apscheduler.schedulers.background",
    "apscheduler, as the daemon imports it": f"{_AS_SERVE_DOES} apscheduler.schedulers.background",
    "the model of reports": "import telemetry_parsers.model",
    "what a worker process imports": "import telemetry_daemon.processes.worker_main",
    "everything that `telemetry serve` imports": f"{_AS_SERVE_DOES} telemetry_daemon.service.serving",
}
_FIRST_POLLS = 100


def main() -> None:
    limits = parse_extent(__doc__ or "")
    tables.print_machine()
    print_polls(1_000 if limits == QUICK else 10_000)
    print()
    print_histories((8,) if limits == QUICK else (8, 16, 128))
    print()
    tables.print_table(
        ("each import alone", "RSS, MiB"), [(name, rss_of_import(program)) for name, program in IMPORTS.items()]
    )


@dataclass
class FakeClock:
    """A clock that the polls advance."""

    now: float = 0.0


def print_polls(polls: int) -> None:
    """Print the memory after the first polls and after all polls of 8 devices, each followed by a scrape."""
    fake_clock = FakeClock()
    clock = Clock(lambda: fake_clock.now, lambda: 1.7e9 + fake_clock.now)
    source = simulated_sources(parse_demo("8xnvidia"), clock=clock)[0]
    parser, renderer = source.parser, Renderer()
    store = Store("bench", clock, (), Accumulator())
    store.add_source(SourceFacts(parser.name, parser.vendor, parser.gives))
    mib_by_count = {}
    for count in range(1, polls + 1):
        fake_clock.now += 1.0
        poll = parser.polls[0]
        capture = source.reader.read(poll, Targets())
        report = None if capture.failure else parser.parse(capture)
        store.put(parser.name, poll, capture, report, result_of(capture, report, 0), 1.0)
        renderer.text(store.snapshot())
        if count in (_FIRST_POLLS, polls):
            gc.collect()
            mib_by_count[count] = processes.memory(os.getpid()).main_rss
    tables.print_table(
        ("polls of 8 devices", "RSS, MiB"), [(f"{n:,}", f"{mib:.1f}") for n, mib in mib_by_count.items()]
    )


def print_histories(nodes: Sequence[int]) -> None:
    """Print the memory that half an hour of history needs, for nodes of several sizes."""
    rows = []
    for cards in nodes:
        without, with_history = (
            run_in_child(partial(rss_after_half_an_hour, cards, has_history=has_history))
            for has_history in (False, True)
        )
        rows.append((f"{cards}", f"{with_history - without:.1f}"))
    tables.print_table(("cards with a history", "RSS more, MiB"), rows)


def run_in_child(work: Callable[[], float]) -> float:
    """Return the result of `work` in a new process, where no memory was freed before."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work).result()


def rss_after_half_an_hour(cards: int, *, has_history: bool) -> float:
    """Return the RSS in MiB after half an hour."""
    fake_clock = FakeClock()
    clock = Clock(lambda: fake_clock.now, lambda: 1.7e9 + fake_clock.now, lambda: 0.0)
    source = simulated_sources(parse_demo(f"{cards}xnvidia"), clock=clock)[0]
    parser, poll = source.parser, source.parser.polls[0]
    history = History(clock)
    store = Store("bench", clock, (), Accumulator(history=history if has_history else None))
    store.add_source(SourceFacts(parser.name, parser.vendor, parser.gives))
    for _ in range(SLOTS):
        for _ in range(2):
            fake_clock.now += SLOT_SECONDS / 2
            capture = source.reader.read(poll, Targets())
            report = parser.parse(capture)
            store.put(parser.name, poll, capture, report, result_of(capture, report, 0), poll.interval)
        history.end_slots(store.snapshot)
    gc.collect()
    return processes.memory(os.getpid()).main_rss


def rss_of_import(program: str) -> str:
    """Return the RSS in MiB of a Python process that runs only this program."""
    program += "\nprint(next(line.split()[1] for line in open('/proc/self/status') if 'VmRSS' in line))"
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return f"{int(out.stdout) / 1024:.1f}"


if __name__ == "__main__":
    main()
