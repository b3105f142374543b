"""The nodes of the table: their hardware, the programs that read it, and the duration of the measurement."""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from e2e.mixed_node import MixedNode
from kits.fake_nvml.library import FakeNvml
from kits.fake_nvml.profile import load_profile
from kits.fake_sysfs import Sysfs, mi210
from kits.fake_tools import ToolFolder
from kits.ports import free_port
from side_by_side import installs, measured
from side_by_side.contestants import SETTLE_SECONDS, Contestant, installed_environment, running
from side_by_side.fake_nvidia_smi import write_tool
from side_by_side.installs import MissingPeer
from side_by_side.ours import THIS, Checkout, telemetry

NVITOP, ALL_SMI, CLIENT, FLOOR, ASYNCIO = "nvitop-exporter", "all-smi", "client_python", "C floor", "bare asyncio"
NODE_EXPORTER = "node_exporter"
NVITOP_VERSION = "1.7.2"
# Newer versions need a newer Rust than 1.95.
ALL_SMI_VERSION = "0.22.0"
GPUS, DEMO_CARDS = measured.GPUS, 128
EVERY_SECOND = "[sources.{0}]\ninterval = 1.0\n"
# This driver returns NOT_SUPPORTED for most calls.
LIMITED_PROFILE = "wsl"
POWER = "accelerator_power_watts"
_BENCHMARKS = THIS.folder / "benchmarks"


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """The compared checkouts, this one first, and whether peers whose build takes minutes are built."""

    checkouts: Sequence[Checkout] = (THIS,)
    builds: bool = False


# Yields a node's contestants, whose files are in the folder, and the peers that cannot be installed.
Contestants = Callable[[Path, BuildOptions], Iterator[Contestant | MissingPeer]]


@dataclass(frozen=True, slots=True)
class Node:
    """A part of the table: its name on the command line, title, contestants, seconds of a round, and scrapes per second."""

    name: str
    title: str
    contestants: Contestants
    seconds: int
    pace: float = 1.0
    # The seconds of a round in which a contestant runs alone. 0: no such rounds.
    alone_seconds: int = 0


def changing_fake(folder: Path, profile: str, gpus: int = GPUS, costs: str = "") -> FakeNvml:
    """Return the fake library with the profile's cards, whose values change. `costs` names a card whose call durations are simulated."""
    fake = FakeNvml(folder, load_profile(profile).with_gpus(gpus).busy())
    if costs:
        fake.cost(costs)
    return fake


def library_environment(fake: FakeNvml) -> dict[str, str]:
    """Return the environment with which a process loads this library."""
    return {"LD_LIBRARY_PATH": fake.environment["LD_LIBRARY_PATH"]}


def _ours_on_nvml(folder: Path, build_options: BuildOptions, profile: str) -> Iterator[Contestant]:
    for checkout in build_options.checkouts:
        fake = changing_fake(folder / f"{checkout.name} nvml", profile)
        config = EVERY_SECOND.format("nvml")
        ours = telemetry(
            folder / checkout.name, POWER, config, environment=library_environment(fake), checkout=checkout
        )
        yield replace(ours, calls=fake.calls)


def _nvitop(folder: Path, profile: str, costs: str = "") -> Contestant | MissingPeer:
    program = installs.install_from_pypi("nvitop-exporter", NVITOP_VERSION, "nvitop-exporter")
    if isinstance(program, MissingPeer):
        return program
    port, fake = free_port(), changing_fake(folder / "nvitop", profile, costs=costs)
    command = (str(program), "--bind-address", "127.0.0.1", "--port", str(port), "--interval", "1.0")
    environment = installed_environment(library_environment(fake))
    return Contestant(
        NVITOP, command, port, b"gpu_", environment, calls=fake.calls, driver_seconds=_driver_seconds(fake, costs)
    )


def _driver_seconds(fake: FakeNvml, costs: str) -> Callable[[], float] | None:
    return fake.driver_seconds if costs else None


def _all_smi(folder: Path, build_options: BuildOptions) -> Contestant | MissingPeer:
    program = installs.install_from_cargo("all-smi", ALL_SMI_VERSION, builds=build_options.builds)
    if isinstance(program, MissingPeer):
        return program
    fake, port = changing_fake(folder / "all-smi", "h100"), free_port()
    (fake.folder / "libnvidia-ml.so").symlink_to(fake.library)
    # Before the library is loaded, the program looks for NVIDIA's tool.
    path = f"{write_tool(folder / 'tools', GPUS)}{os.pathsep}{os.environ['PATH']}"
    command = (str(program), "api", "--port", str(port), "--interval", "1")
    environment = installed_environment({**library_environment(fake), "PATH": path, "RUST_LOG": "error"})
    return Contestant(ALL_SMI, command, port, b"all_smi_gpu_power", environment, calls=fake.calls)


def _servers_of(page: Path, folder: Path) -> Iterator[Contestant | MissingPeer]:
    """Yield servers of a page of ours: two that read no device, and one that reads the library without our checks."""
    environment = installed_environment({"PYTHONPATH": str(_BENCHMARKS)})
    for name, module, marker in ((CLIENT, "client_page", b"sets_total"), (ASYNCIO, "bare_page", POWER.encode())):
        port = free_port()
        command = (sys.executable, "-m", f"side_by_side.{module}", str(port), str(page))
        yield Contestant(name, command, port, marker, environment)
    types = THIS.folder / "tests" / "nvml_fake"
    program = installs.compile_program("floor", "-I", str(types), str(_BENCHMARKS / "floor.c"), "-ldl", "-lz")
    if isinstance(program, MissingPeer):
        yield program
        return
    fake, port = changing_fake(folder / "floor", "h100"), free_port()
    command = (str(program), str(port), str(page), str(fake.library))
    yield Contestant(FLOOR, command, port, POWER.encode(), calls=fake.calls)


def _node_exporter() -> Contestant | MissingPeer:
    program = installs.find_program("prometheus-node-exporter", "prometheus-node-exporter")
    if isinstance(program, MissingPeer):
        return program
    port = free_port()
    command = (str(program), f"--web.listen-address=127.0.0.1:{port}", "--log.level=error")
    return Contestant(NODE_EXPORTER, command, port, b"node_memory_MemTotal_bytes")


def nvidia(folder: Path, build_options: BuildOptions) -> Iterator[Contestant | MissingPeer]:
    """Yield all contestants on eight H100."""
    ours = list(_ours_on_nvml(folder, build_options, "h100"))
    yield from ours
    yield _nvitop(folder, "h100")
    yield _all_smi(folder, build_options)
    page = folder / "page"
    with running(ours[0]) as daemon:
        time.sleep(SETTLE_SECONDS)
        page.write_bytes(daemon.plain_page())
    yield from _servers_of(page, folder)
    yield _node_exporter()


def with_few_readings(folder: Path, build_options: BuildOptions) -> Iterator[Contestant | MissingPeer]:
    """Yield the contestants on a driver that returns NOT_SUPPORTED for most calls."""
    yield from _ours_on_nvml(folder, build_options, LIMITED_PROFILE)
    yield _nvitop(folder, LIMITED_PROFILE)


def with_costs(card: str, folder: Path, build_options: BuildOptions) -> Iterator[Contestant | MissingPeer]:
    """Yield the contestants, with default settings, on a driver whose calls take as long as those of the card `card`."""
    for checkout in build_options.checkouts:
        fake = changing_fake(folder / f"{checkout.name} nvml", "h100", costs=card)
        ours = telemetry(folder / checkout.name, POWER, environment=library_environment(fake), checkout=checkout)
        yield replace(ours, calls=fake.calls, driver_seconds=fake.driver_seconds)
    yield _nvitop(folder, "h100", card)


def demo(cards: int, folder: Path, build_options: BuildOptions) -> Iterator[Contestant]:
    """Yield the daemons with simulated cards. Our CPU time includes the simulation."""
    for checkout in build_options.checkouts:
        flags = ("--demo", f"{cards}xnvidia")
        yield telemetry(folder / checkout.name, POWER, EVERY_SECOND.format("nvml"), flags, checkout=checkout)


def amd(folder: Path, build_options: BuildOptions) -> Iterator[Contestant]:
    """Yield the contestants on eight Instinct cards: a tree of files with changing sensors."""
    for checkout in build_options.checkouts:
        root = folder / f"{checkout.name} host"
        cards = [_card(root, number) for number in range(GPUS)]
        config = f'{EVERY_SECOND.format("amdgpu-sysfs")}path = "{root}"\n'
        ours = telemetry(folder / checkout.name, POWER, config, environment=_no_tools(folder), checkout=checkout)
        yield replace(ours, change_readings=_reading_changer(cards))


def _card(root: Path, number: int) -> Path:
    bus = f"0000:{0x29 + 4 * number:02x}:00.0"
    return Sysfs(root).card(bus, {**mi210(), "unique_id": f"a1b2c3d4e5f607{number:02x}"})


def _reading_changer(cards: Sequence[Path]) -> Callable[[], None]:
    """Return a function that changes temperature, power and utilization of each card with every call."""
    turns = itertools.count()

    def move() -> None:
        turn = next(turns)
        for number, card in enumerate(cards):
            step = (turn + 3 * number) % 17
            (card / "gpu_busy_percent").write_text(str(80 + step))
            (card / "hwmon/hwmon4/temp1_input").write_text(str(41000 + 1000 * step))
            (card / "hwmon/hwmon4/power1_average").write_text(str(200_000_000 + 3_000_000 * step))

    return move


def mixed(folder: Path, build_options: BuildOptions) -> Iterator[Contestant]:
    """Yield the daemons with cards of eleven vendors: nine tools (scripts that print), the library, and the files."""
    for checkout in build_options.checkouts:
        node = MixedNode(folder / f"{checkout.name} node")
        config = node.config.replace("interval = 0.5", "interval = 1.0")
        yield telemetry(
            folder / checkout.name, POWER, config, environment=_search_paths(node.environment), checkout=checkout
        )


def _search_paths(environment: dict[str, str]) -> dict[str, str]:
    return {name: environment[name] for name in ("PATH", "LD_LIBRARY_PATH")}


def _no_tools(folder: Path) -> dict[str, str]:
    empty = folder / "no tools"
    empty.mkdir(exist_ok=True)
    return {"PATH": str(empty)}


def idle(folder: Path, build_options: BuildOptions) -> Iterator[Contestant]:
    """Yield the contestants on a node without card, tool and driver, with default settings."""
    for checkout in build_options.checkouts:
        yield telemetry(
            folder / checkout.name, "telemetry_build_info", environment=_no_tools(folder), checkout=checkout
        )


def with_disturbances(folder: Path, build_options: BuildOptions) -> Iterator[Contestant]:
    """Yield the contestants on eight H100, while one tool hangs at every poll and the configuration is read again every two seconds."""
    tools = ToolFolder(folder / "tools")
    tools.hangs("ixsmi")
    for checkout in build_options.checkouts:
        fake = changing_fake(folder / f"{checkout.name} nvml", "h100")
        config = EVERY_SECOND.format("nvml") + EVERY_SECOND.format("ixsmi") + 'mode = "always"\ndeadline = 0.9\n'
        environment = {**library_environment(fake), "PATH": tools.search_path}
        ours = telemetry(folder / checkout.name, POWER, config, environment=environment, checkout=checkout)
        yield replace(ours, scrapes_per_reload=2 * DISTURBED_PACE)


DISTURBED_PACE = 5
NODES = (
    Node("nvidia", f"{GPUS} × H100 through NVML", nvidia, seconds=45, alone_seconds=12),
    Node(
        "h200",
        f"{GPUS} GPUs with the costs of an H200, defaults, scraped every 15 s",
        partial(with_costs, "h200"),
        seconds=60,
        pace=1 / 15,
    ),
    Node(
        "rtx4090",
        f"{GPUS} GPUs with the costs of an RTX 4090, the same",
        partial(with_costs, "rtx4090"),
        seconds=60,
        pace=1 / 15,
    ),
    Node("little", f"{GPUS} GPUs with a driver that supports few calls", with_few_readings, seconds=20),
    Node("demo8", f"{GPUS} simulated cards", partial(demo, GPUS), seconds=15),
    Node("demo", f"{DEMO_CARDS} simulated cards", partial(demo, DEMO_CARDS), seconds=30),
    Node("amd", f"{GPUS} × MI210 through the driver's files", amd, seconds=15),
    Node("mixed", "11 vendors, read from files, NVML and 9 tools", mixed, seconds=15),
    Node("idle", "no accelerators: no tool, driver or card; scraped every 15 s", idle, seconds=30, pace=1 / 15),
    Node("idle1", "the same, scraped every second", idle, seconds=12),
    Node(
        "disturbed",
        f"{GPUS} × H100, with a hanging tool and a reload every 2 s",
        with_disturbances,
        seconds=20,
        pace=DISTURBED_PACE,
    ),
)
