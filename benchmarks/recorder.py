"""Measure what a Recorder costs a training loop: a thousand steps, with and without a section for each step. Compare its energy with the counters.

python benchmarks/recorder.py [--quick]

The daemon has eight simulated cards. A step is some milliseconds of pure Python, which other threads of the interpreter delay
more than any other work.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from device_telemetry import Recorder, read
from kits.daemon import Daemon

STEPS, WORK = 1000, 40_000
ROUNDS, QUICK_ROUNDS = 5, 2


def step() -> int:
    return sum(number * number for number in range(WORK))


def run_loop(section: Callable[[], AbstractContextManager[object]]) -> float:
    """Return the process's CPU seconds for a thousand steps, each within a context from `section`. Other programs do not count."""
    begin = time.process_time()
    for _ in range(STEPS):
        with section():
            step()
    return time.process_time() - begin


def read_energy_counters(address: str) -> tuple[float, float]:
    """Return the time of the daemon's readings, and the sum of all cards' energy counters at that time."""
    node = read(address)
    return node.time.timestamp(), sum(device.value("energy_joules_total") or 0.0 for device in node.devices)


def main() -> int:
    rounds = QUICK_ROUNDS if "--quick" in sys.argv[1:] else ROUNDS
    with tempfile.TemporaryDirectory() as name, Daemon(Path(name), arguments=("--demo", "8xnvidia")) as daemon:
        daemon.until(lambda: len(daemon.document()["devices"]) == 8)
        ratios = []
        for _ in range(rounds):
            without = run_loop(nullcontext)
            with Recorder("all", url=daemon.address) as recorder:
                with_sections = run_loop(lambda: recorder("step"))  # only this iteration calls the function
            ratios.append(with_sections / without)
        recorder = Recorder("all", url=daemon.address)
        recorder.start()
        begin, before = read_energy_counters(daemon.address)
        time.sleep(60 * rounds)
        end, after = read_energy_counters(daemon.address)
        recorder.stop()
        results = recorder.results()
    print(
        f"a loop of {STEPS} steps with a Recorder, as a multiple of the same without: median {statistics.median(ratios):.4f}, of {rounds} pairs"
    )
    watts = (after - before) / (end - begin)
    print(
        f"mean power by the energy of {60 * rounds} s, as a multiple of the counters' own: {results['energy_joules'] / results['seconds'] / watts:.4f}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
