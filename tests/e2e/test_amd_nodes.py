"""Whole nodes of AMD's and Hygon's cards through the real daemon: each card once, whichever source reports it."""

import json
from pathlib import Path
from typing import Any

import pytest

from kits.daemon import Daemon
from kits.fake_sysfs import Sysfs, mi210
from kits.fake_tools import ToolFolder

pytestmark = pytest.mark.installed

DIES = 8
BUSES = [f"0000:{0x29 + 4 * die:02x}:00.0" for die in range(DIES)]
CONFIG = """
[sources.rocm-smi]
interval = 0.5
deadline = {deadline}
mode = "always"
[sources.hy-smi]
interval = 0.5
deadline = {deadline}
mode = "always"
[sources.amdgpu-sysfs]
interval = 0.5
path = "{root}"
"""
CORE = (
    "temperature_celsius",
    "power_watts",
    "power_cap_watts",
    "memory_used_bytes",
    "memory_total_bytes",
    "utilization_ratio",
)


def unique_id(die: int) -> str:
    """Both dies of a package have one."""
    return f"a1b2c3d4e5f6071{die // 2}"


def rocm_smi(dies: int = DIES) -> str:
    cards: dict[str, Any] = {}
    for die in range(dies):
        power = {"Average Graphics Package Power (W)": "91.0" if die % 2 == 0 else "N/A (Secondary die)"}
        cards[f"card{die}"] = {
            "Unique ID": f"0x{unique_id(die)}", "Temperature (Sensor edge) (C)": "40.0", **power, "GPU use (%)": "37",
            "Max Graphics Package Power (W)": "560.0" if die % 2 == 0 else "0.0", "PCI Bus": BUSES[die].upper(),
            "VRAM Total Memory (B)": "68702699520", "VRAM Total Used Memory (B)": "11059200",
            "Card Series": "AMD INSTINCT MI250 (MCM) OAM AC MBA", "Card Vendor": "Advanced Micro Devices, Inc. [AMD/ATI]",
        }  # fmt: skip
    return json.dumps(cards) + "\n"


def hy_smi(cards: int = DIES) -> str:
    document = {
        f"card{card}": {
            "Device ID": "0x6210", "Card Series": "K100_AI", "Card Vendor": "Chengdu C-3000 IC Design Co., Ltd.",
            "Serial Number": f"TRCX1100010203{card:02}", "Unique ID": f"71aa00bb11cc220{card}",
            "PCI Bus": f"{BUSES[card].upper()} --> SN: 01-0003{card:02} --> OAM ID: {card}",
            "Average Graphics Package Power (W)": "81.0", "Max Graphics Package Power (W)": "400.0",
            "Temperature (Sensor core) (C)": "40.0", "HCU use (%)": "12.5", "vram Total Memory (MiB)": "65520",
            "vram Total Used Memory (MiB)": "130",
        }
        for card in range(cards)
    }  # fmt: skip
    return json.dumps(document) + "\n"


def rocminfo(kind: str, name: str) -> str:
    agents = "".join(
        f"*******\nAgent {2 + die}\n*******\n  Name:                    gfx90a\n"
        f"  Uuid:                    GPU-{unique_id(die)}\n  Marketing Name:          {name}\n"
        f"  Vendor Name:             AMD\n  Device Type:             {kind}\n"
        f"  BDFID:                   {int(BUSES[die][5:7], 16) << 8}\n  Compute Unit:            104\n"
        for die in range(DIES)
    )
    cpu = "*******\nAgent 1\n*******\n  Name:                    A CPU\n  Device Type:             CPU\n"
    return f"ROCk module is loaded\n=====================\nHSA Agents\n==========\n{cpu}{agents}*** Done ***\n"


@pytest.fixture
def tools(tmp_path: Path) -> ToolFolder:
    return ToolFolder(tmp_path / "tools")


def sysfs_of(tmp_path: Path, dies: int = DIES) -> Sysfs:
    sysfs = Sysfs(tmp_path / "host")
    for die in range(dies):
        files = {**mi210(), "unique_id": unique_id(die), "product_name": "AMD INSTINCT MI250 (MCM) OAM AC MBA"}
        if die % 2:
            files = {name: text for name, text in files.items() if "power1_average" not in name}
        sysfs.card(BUSES[die], files)
    return sysfs


def daemon(tmp_path: Path, tools: ToolFolder, deadline: float = 60.0) -> Daemon:
    return Daemon(tmp_path, CONFIG.format(root=tmp_path / "host", deadline=deadline), environment=tools.environment)


def devices(running: Daemon) -> list[Any]:
    return running.document()["devices"]


def up(running: Daemon) -> list[str]:
    return [device["device"] for device in devices(running) if device["up"]]


def test_an_mi250_node_has_eight_devices_and_each_package_one_power(tmp_path: Path, tools: ToolFolder) -> None:
    sysfs_of(tmp_path)
    tools.prints("rocm-smi", rocm_smi())
    tools.prints("rocminfo", rocminfo("GPU", "AMD INSTINCT MI250 (MCM) OAM AC MBA"))
    with daemon(tmp_path, tools) as running:
        for source in ("amdgpu-sysfs", "rocm-smi", "rocminfo"):
            running.until_state(source, "ok")
        running.until(lambda: len(up(running)) == DIES)
        found = devices(running)
        assert [device["device"] for device in found] == [str(die) for die in range(DIES)]
        assert [device["bus_id"] for device in found] == BUSES
        assert len({device["id"] for device in found}) == DIES
        assert {device["model"] for device in found} == {"AMD INSTINCT MI250 (MCM) OAM AC MBA"}
        for die, device in enumerate(found):
            missing = {key for key in CORE if key not in device["readings"]}
            assert missing == ({"power_watts"} if die % 2 else set())
            assert device["origin"]["utilization_ratio"] == "amdgpu-sysfs"
            assert device["readings"]["compute_units"] == 104
        page = running.page()
        assert 'telemetry_devices{model="AMD INSTINCT MI250 (MCM) OAM AC MBA",vendor="amd"} 8.0' in page


def test_trouble_on_an_mi250_node_costs_what_it_must(tmp_path: Path, tools: ToolFolder) -> None:
    sysfs = sysfs_of(tmp_path)
    tools.prints("rocm-smi", rocm_smi())
    with daemon(tmp_path, tools, deadline=1.0) as running:
        running.until(lambda: len(up(running)) == DIES)
        running.until_state("rocm-smi", "ok")
        tools.hangs("rocm-smi")
        running.until(lambda: running.source("rocm-smi")["state"] in ("failed", "stuck"))
        assert len(up(running)) == DIES
        assert all("temperature_celsius" in device["readings"] for device in devices(running))
        tools.prints("rocm-smi", '{"card0": {"GPU use')
        (sysfs.root / "sys/bus/pci/drivers/amdgpu" / BUSES[7]).unlink()
        running.until(lambda: len(up(running)) == DIES - 1)
        lost = [device for device in devices(running) if not device["up"]]
        assert [(device["bus_id"], device["readings"]) for device in lost] == [(BUSES[7], {})]


def test_a_k100_node_without_usable_files_is_read_by_its_tool(tmp_path: Path, tools: ToolFolder) -> None:
    tools.prints("hy-smi", hy_smi())
    tools.prints("rocminfo", rocminfo("DCU", "K100_AI"))
    with daemon(tmp_path, tools) as running:
        running.until_state("hy-smi", "ok")
        running.until_state("rocminfo", "ok")
        running.until(lambda: len(up(running)) == DIES)
        found = devices(running)
        assert {(device["vendor"], device["model"]) for device in found} == {("hygon", "K100_AI")}
        assert [device["bus_id"] for device in found] == BUSES
        assert all(key in device["readings"] for device in found for key in CORE)
        tools.prints("hy-smi", hy_smi(7))
        running.until(lambda: sum("power_watts" in device["readings"] for device in devices(running)) == DIES - 1)
        tools.prints("hy-smi", "HCU[0] garbage \x00\n")
        running.until(lambda: all("power_watts" not in device["readings"] for device in devices(running)))
        assert running.source("hy-smi")["state"] == "failed"


def test_hygons_tool_under_amds_name_is_hygons(tmp_path: Path, tools: ToolFolder) -> None:
    tools.prints("rocm-smi", hy_smi(2))
    with daemon(tmp_path, tools) as running:
        running.until_state("rocm-smi", "not_mine")
        running.until_state("hy-smi", "ok")
        assert {device["vendor"] for device in devices(running)} == {"hygon"}
        assert len(up(running)) == 2
