"""What the daemon costs: memory over many polls, CPU of an idle daemon, start of a command, size of each import.

python benchmarks/cost.py [--quick] [seconds to watch the daemon]
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from side_by_side.contestants import running
from side_by_side.ours import telemetry
from side_by_side.processes import cpu_seconds

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
PAGE_KIB = os.sysconf("SC_PAGE_SIZE") / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seconds", nargs="?", type=float, default=30.0, help="how long to watch the daemon (30)")
    parser.add_argument("--quick", action="store_true", help="watch it for 10 s, and only 1,000 polls")
    asked = parser.parse_args()
    print_polls(1_000 if asked.quick else 10_000)
    print_daemon(10.0 if asked.quick else asked.seconds)
    print_commands()
    print_imports()


def rss_mib(pid: int | str = "self") -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_KIB / 1024


@dataclass
class Times:
    now: float = 0.0


def print_polls(polls: int) -> None:
    """Memory and CPU of so many polls of 8 devices, each scraped once, in fast motion."""
    times = Times()
    clock = Clock(lambda: times.now, lambda: 1.7e9 + times.now)
    source = simulated_sources(parse_demo("8xnvidia"), clock=clock)[0]
    parser, renderer = source.parser, Renderer()
    store = Store("bench", clock, (), Accumulator())
    store.add_source(SourceFacts(parser.name, parser.vendor, parser.gives))
    ours = 0.0
    first = 0.0
    for count in range(1, polls + 1):
        times.now += 1.0
        poll = parser.polls[0]
        capture = source.reader.read(poll, Targets())
        start = time.process_time()
        report = None if capture.failure else parser.parse(capture)
        store.put(parser.name, poll, capture, report, judge(capture, report, 0), 1.0)
        renderer.text(store.snapshot())
        ours += time.process_time() - start
        if count == 100:
            gc.collect()
            first = rss_mib()
    gc.collect()
    print(f"== {polls:,} polls of 8 devices, each parsed, merged and rendered")
    print(f"RSS after 100 polls {first:.1f} MiB, after all {rss_mib():.1f} MiB (ratio {rss_mib() / first:.3f})")
    print(f"CPU per poll: {ours / polls * 1e3:.2f} ms, parsing, merging and rendering together")


def print_daemon(seconds: float) -> None:
    """CPU and memory of a daemon that polls 8 simulated devices every second."""
    with tempfile.TemporaryDirectory() as folder:
        config = "[sources.nvml]\ninterval = 1.0\n"
        ours = telemetry(Path(folder), "accelerator_power_watts", config, ("--demo", "8xnvidia"))
        with running(ours) as daemon:
            pid = daemon.process.pid
            time.sleep(5)
            before, start = cpu_seconds(pid), time.monotonic()
            time.sleep(seconds)
            used, passed = cpu_seconds(pid) - before, time.monotonic() - start
            print(f"== an idle daemon, 8 simulated devices at 1 s, watched for {passed:.0f} s")
            print(f"CPU {used / passed * 100:.2f} % of a core, RSS {rss_mib(pid):.1f} MiB (no children)")


def print_commands() -> None:
    """Wall time of short commands against an empty Python."""
    print("== start of a command, median of 9")
    empty = median_ms([sys.executable, "-c", ""])
    for arguments in (["version"], ["--help"]):
        took = median_ms([sys.executable, "-m", "telemetry_daemon.cli", *arguments])
        print(
            f"telemetry {' '.join(arguments):<10} {took:6.0f} ms, {took / empty:.1f} × an empty Python ({empty:.0f} ms)"
        )


def median_ms(command: list[str]) -> float:
    times = []
    for _ in range(9):
        start = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def print_imports() -> None:
    """RSS of a Python that imported each thing alone."""
    print("== RSS with one import")
    program = "import {0}; from pathlib import Path; print(Path('/proc/self/statm').read_text().split()[1])"
    for name in ("sys", *IMPORTS):
        out = subprocess.run([sys.executable, "-c", program.format(name)], capture_output=True, text=True, check=True)
        print(f"{name:<36} {int(out.stdout) * PAGE_KIB / 1024:6.1f} MiB")


if __name__ == "__main__":
    main()
