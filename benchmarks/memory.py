"""What takes our memory: each import alone, and many polls.

python benchmarks/memory.py [--quick]
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from dataclasses import dataclass

from side_by_side import processes, tables
from side_by_side.options import QUICK, extent

from telemetry_daemon.readers.base import Targets
from telemetry_daemon.simulate.demo import parse_demo
from telemetry_daemon.simulate.source import simulated_sources
from telemetry_daemon.state.accumulate import Accumulator
from telemetry_daemon.state.health import judge
from telemetry_daemon.state.store import SourceFacts, Store
from telemetry_daemon.times import Clock
from telemetry_exporters.prometheus import Renderer

IMPORTS = (
    "asyncio, ssl",
    "h11",
    "prometheus_client",
    "apscheduler.schedulers.background",
    "psutil",
    "pydantic",
    "pynvml",
    "telemetry_daemon.workers.inside",
    "telemetry_daemon.service.daemon",
)
_FIRST_POLLS = 100


def main() -> None:
    """Print the tables."""
    asked = extent(__doc__ or "")
    tables.print_machine()
    print_polls(1_000 if asked == QUICK else 10_000)
    print()
    tables.print_table(("each import alone", "RSS, MiB"), [(name, imported(name)) for name in ("sys", *IMPORTS)])


@dataclass
class Times:
    """A clock that the polls move."""

    now: float = 0.0


def print_polls(polls: int) -> None:
    """Memory after so many polls of 8 devices, each scraped once, in fast motion."""
    times = Times()
    clock = Clock(lambda: times.now, lambda: 1.7e9 + times.now)
    source = simulated_sources(parse_demo("8xnvidia"), clock=clock)[0]
    parser, renderer = source.parser, Renderer()
    store = Store("bench", clock, (), Accumulator())
    store.add_source(SourceFacts(parser.name, parser.vendor, parser.gives))
    found = {}
    for count in range(1, polls + 1):
        times.now += 1.0
        poll = parser.polls[0]
        capture = source.reader.read(poll, Targets())
        report = None if capture.failure else parser.parse(capture)
        store.put(parser.name, poll, capture, report, judge(capture, report, 0), 1.0)
        renderer.text(store.snapshot())
        if count in (_FIRST_POLLS, polls):
            gc.collect()
            found[count] = processes.memory(os.getpid()).first
    tables.print_table(("polls of 8 devices", "RSS, MiB"), [(f"{n:,}", f"{mib:.1f}") for n, mib in found.items()])


def imported(name: str) -> str:
    """RSS of a Python that imported nothing else."""
    program = f"import {name}; print(next(line.split()[1] for line in open('/proc/self/status') if 'VmRSS' in line))"
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return f"{int(out.stdout) / 1024:.1f}"


if __name__ == "__main__":
    main()
