"""One node with eight H100 read through NVML: our daemon beside nvitop-exporter and all-smi, in one run.

    python benchmarks/nvml.py [--quick]

All of them load the same fake libnvidia-ml (tests/nvml_fake), each its own copy, which counts the calls. It answers from
memory: what a real driver takes for a call is not in the figures. nvmlDeviceGetPcieThroughput takes 20 ms as in a driver.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from side_by_side import installs, summary, tables
from side_by_side.contestants import (
    Contestant,
    free_port,
    installed_environment,
    side_by_side,
    started,
)
from side_by_side.fake_nvidia_smi import write_tool
from side_by_side.options import extent
from side_by_side.ours import telemetry

from kits.fake_nvml.library import FakeNvml
from kits.fake_nvml.reader import TIERS, reading

PROFILE, GPUS = "h100", 8
MORE_ROWS = (
    summary.Row("driver calls a second", lambda each: each.count_per_second("*")),
    summary.Row("of these that block 20 ms", lambda each: each.count_per_second("nvmlDeviceGetPcieThroughput")),
)
# Newer ones want a newer Rust than 1.95.
ALL_SMI = "0.22.0"


def main() -> None:
    """Print the tables."""
    asked = extent(__doc__ or "")
    tables.print_machine()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        serving, starts = started(list(contestants(folder)), asked.starts)
        print(f"\n{GPUS} × H100 at 1 s, scraped once a second, {asked.rounds} rounds of {asked.seconds} s\n")
        summary.print_contest(side_by_side(serving, asked.rounds, asked.seconds), starts, MORE_ROWS)
        print_tiers(folder)


def contestants(folder: Path) -> Iterator[Contestant]:
    """Ours first; those that cannot be installed are named and left out."""
    yield ours(folder)
    for peer in (nvitop_exporter, all_smi):
        found = peer(folder)
        if isinstance(found, installs.Missing):
            print(found, flush=True)
        else:
            yield found


def ours(folder: Path) -> Contestant:
    """The daemon with its fast tier at one second, the others as they are."""
    fake = FakeNvml(folder / "ours", PROFILE)
    config = "[sources.nvml]\ninterval = 1.0\n"
    found = telemetry(folder / "telemetry", "accelerator_power_watts", config, environment=loading(fake))
    return replace(found, counts=fake.counts)


def loading(fake: FakeNvml) -> dict[str, str]:
    """What a process must be told to load this library."""
    return {"LD_LIBRARY_PATH": fake.environment["LD_LIBRARY_PATH"]}


def nvitop_exporter(folder: Path) -> Contestant | installs.Missing:
    """From PyPI, in Python with the same pynvml as ours; polls every second as ours does."""
    program = installs.from_pypi("nvitop-exporter", "nvitop-exporter")
    if isinstance(program, installs.Missing):
        return program
    fake, port = FakeNvml(folder / "nvitop", PROFILE), free_port()
    command = (str(program), "--bind-address", "127.0.0.1", "--port", str(port), "--interval", "1.0")
    environment = installed_environment(loading(fake))
    return Contestant("nvitop-exporter", command, port, b"gpu_utilization", environment, counts=fake.counts)


def all_smi(folder: Path) -> Contestant | installs.Missing:
    """From crates.io, in Rust; its `api` mode polls every second as ours does."""
    program = installs.from_cargo("all-smi", ALL_SMI)
    if isinstance(program, installs.Missing):
        return program
    fake, port = FakeNvml(folder / "all-smi", PROFILE), free_port()
    (fake.folder / "libnvidia-ml.so").symlink_to(fake.library)
    # It looks for NVIDIA's tool before it loads the library.
    path = f"{write_tool(folder / 'tools', GPUS)}{os.pathsep}{os.environ['PATH']}"
    command = (str(program), "api", "--port", str(port), "--interval", "1")
    environment = installed_environment({**loading(fake), "PATH": path, "RUST_LOG": "error"})
    return Contestant("all-smi", command, port, b"all_smi_gpu_power", environment, counts=fake.counts)


def print_tiers(folder: Path) -> None:
    """Print our own calls by tier."""
    with reading(FakeNvml(folder / "tiers", PROFILE)) as bench:
        for tier in TIERS:
            bench.data(tier)
        rows = [(tier, sum(bench.made(tier).values())) for tier in TIERS]
    print()
    tables.print_table(("poll", "driver calls for each GPU"), rows)


if __name__ == "__main__":
    main()
