"""Cards of many vendors in one node: one page, one language, and what breaks at one vendor stays there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from captures_kit import own_case, parse_file
from daemon_kit import Daemon
from fake_tools import ToolFolder
from mthreads_kit import TABLE
from nvml_kit import FakeNvml
from page_lint import complaints
from sysfs_kit import Sysfs, mi210

pytestmark = [pytest.mark.needs("cc"), pytest.mark.timeout(200)]

# By vendor: its source, the tool that is faked, and which of our captures the tool prints.
TOOLS = {
    "hygon": ("hy-smi", "hy-smi", "json-dtk24"),
    "ascend": ("npu-smi", "npu-smi", "table-910b-sparse"),
    "cambricon": ("cnmon", "cnmon", "table-5.10-busy"),
    "metax": ("mx-smi", "mx-smi", "table-2.2.9-busy"),
    "iluvatar": ("ixsmi", "ixsmi", "table-two-dies-busy"),
    "enflame": ("efsmi", "efsmi", "table-1.7"),
    "kunlunxin": ("xpu-smi-kunlun", "xpu-smi", "table"),
}
OTHERS = {"nvidia": "nvml", "amd": "amdgpu-sysfs", "moorethreads": "mthreads-gmi"}
CORE = {"temperature_celsius", "power_watts", "memory_used_bytes", "memory_total_bytes", "utilization_ratio"}
# What the tables faked here do not tell; other outputs of the same tools do.
LESS = {"moorethreads": {"power_watts"}, "enflame": {"memory_used_bytes"}}


def config(root: Path) -> str:
    sources = {source for source, _, _ in TOOLS.values()} | {"mthreads-gmi"}
    slow = "".join(f'[sources.{name}]\ninterval = 0.5\ndeadline = 1.5\nmode = "always"\n' for name in sorted(sources))
    return f'{slow}[sources.amdgpu-sysfs]\ninterval = 0.5\npath = "{root}"\n[sources.nvml]\ninterval = 1.0\n'


def text_of(tool: str, name: str) -> str:
    return parse_file(own_case(tool, name).path.read_text()).text


@contextmanager
def node(tmp_path: Path) -> Iterator[tuple[Daemon, ToolFolder]]:
    """A running daemon on a node with two or more cards of most vendors."""
    tools = ToolFolder(tmp_path / "tools")
    tools.prints("mthreads-gmi", TABLE)
    for source, tool, name in TOOLS.values():
        tools.prints(tool, text_of(source, name))
    sysfs = Sysfs(tmp_path / "host")
    for bus in ("0000:c1:00.0", "0000:c5:00.0"):
        sysfs.card(bus, {**mi210(), "unique_id": bus.replace(":", "").replace(".", "")})
    nvml = FakeNvml(tmp_path / "nvml", "h100")
    environment = {**nvml.environment, "PATH": tools.search_path}
    with Daemon(tmp_path, config(tmp_path / "host"), environment=environment) as running:
        wanted = {*TOOLS, *OTHERS}
        running.until(lambda: wanted <= {device["vendor"] for device in running.document()["devices"]})
        running.until(lambda: running.get("/readyz")[0] == 200)
        yield running, tools


def shown(running: Daemon) -> dict[str, list[tuple[str, frozenset[str]]]]:
    """Each vendor's devices that are up, with the keys of their fast readings."""
    found: dict[str, list[tuple[str, frozenset[str]]]] = {}
    for device in running.document()["devices"]:
        if device["up"]:
            keys = frozenset(CORE & device["readings"].keys())
            found.setdefault(device["vendor"], []).append((device["id"], keys))
    return found


def test_one_page_one_language(tmp_path: Path) -> None:
    with node(tmp_path) as (running, _tools):
        assert complaints(running.page().encode()) == []
        found: dict[str, list[Any]] = shown(running)
        assert found.keys() == {*TOOLS, *OTHERS}
        assert {vendor: len(devices) for vendor, devices in found.items() if vendor in ("nvidia", "amd")} == {
            "nvidia": 8,
            "amd": 2,
        }
        for vendor, devices in found.items():
            told = frozenset().union(*(keys for _, keys in devices))
            assert told == CORE - LESS.get(vendor, set()), vendor


@pytest.mark.parametrize("fault", ["hangs", "garbage", "missing"])
def test_what_breaks_at_each_vendor_in_turn_stays_there(tmp_path: Path, fault: str) -> None:
    with node(tmp_path) as (running, tools):
        before = shown(running)
        for vendor, (source, tool, name) in TOOLS.items():
            if fault == "hangs":
                tools.hangs(tool)
            elif fault == "garbage":
                tools.prints(tool, "\x00\x01 nothing of any tool \xff\n")
            else:
                (tools.folder / tool).unlink()
            running.until(
                lambda vendor=vendor: vendor not in {v for v, d in shown(running).items() if any(k for _, k in d)}
            )
            now = shown(running)
            assert {other: now.get(other) for other in before if other != vendor} == {
                other: devices for other, devices in before.items() if other != vendor
            }, vendor
            tools.prints(tool, text_of(source, name))
            tools.end(tool)  # hy-smi is not killed at its deadline: here the driver lets it go at last
            running.until_state(source, "ok")
            running.until(lambda vendor=vendor: shown(running).get(vendor) == before[vendor])
