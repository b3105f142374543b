"""A node with cards of two dies through the real daemon: each die once, whichever source reports it."""

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
MODEL = "AMD INSTINCT MI250 (MCM) OAM AC MBA"
CONFIG = """
[sources.rocm-smi]
interval = 0.5
deadline = 60.0
mode = "always"
[sources.amdgpu-sysfs]
interval = 0.5
path = "{root}"
"""
CORE = {
    *("temperature_celsius", "power_watts", "power_cap_watts", "memory_used_bytes", "memory_total_bytes"),
    "utilization_ratio",
}


def unique_id(die: int) -> str:
    """Return the id that both dies of a package share."""
    return f"a1b2c3d4e5f6071{die // 2}"


def rocm_smi() -> str:
    cards: dict[str, Any] = {}
    for die in range(DIES):
        power = {"Average Graphics Package Power (W)": "91.0" if die % 2 == 0 else "N/A (Secondary die)"}
        cards[f"card{die}"] = {
            "Unique ID": f"0x{unique_id(die)}", "Temperature (Sensor edge) (C)": "40.0", **power, "GPU use (%)": "37",
            "Max Graphics Package Power (W)": "560.0" if die % 2 == 0 else "0.0", "PCI Bus": BUSES[die].upper(),
            "VRAM Total Memory (B)": "68702699520", "VRAM Total Used Memory (B)": "11059200",
            "Card Series": MODEL, "Card Vendor": "Advanced Micro Devices, Inc. [AMD/ATI]",
        }  # fmt: skip
    return json.dumps(cards) + "\n"


def rocminfo() -> str:
    agents = "".join(
        f"*******\nAgent {2 + die}\n*******\n  Name:                    gfx90a\n"
        f"  Uuid:                    GPU-{unique_id(die)}\n  Marketing Name:          {MODEL}\n"
        f"  Vendor Name:             AMD\n  Device Type:             GPU\n"
        f"  BDFID:                   {int(BUSES[die][5:7], 16) << 8}\n  Compute Unit:            104\n"
        for die in range(DIES)
    )
    cpu = "*******\nAgent 1\n*******\n  Name:                    A CPU\n  Device Type:             CPU\n"
    return f"ROCk module is loaded\n=====================\nHSA Agents\n==========\n{cpu}{agents}*** Done ***\n"


def test_mi250_node_has_eight_devices_and_one_power_per_package(tmp_path: Path, tools: ToolFolder) -> None:
    sysfs = Sysfs(tmp_path / "host")
    for die in range(DIES):
        files = {**mi210(), "unique_id": unique_id(die), "product_name": MODEL}
        sysfs.card(BUSES[die], {name: text for name, text in files.items() if die % 2 == 0 or "power1_av" not in name})
    tools.prints("rocm-smi", rocm_smi())
    tools.prints("rocminfo", rocminfo())
    with Daemon(tmp_path, CONFIG.format(root=sysfs.root), environment=tools.environment) as daemon:
        for source in ("amdgpu-sysfs", "rocm-smi", "rocminfo"):
            daemon.until_state(source, "ok")
        daemon.until(lambda: [device["up"] for device in daemon.document()["devices"]] == [True] * DIES)
        devices = daemon.document()["devices"]
        assert f'telemetry_devices{{model="{MODEL}",vendor="amd"}} 8.0' in daemon.page()
    assert [device["device"] for device in devices] == [str(die) for die in range(DIES)]
    assert [device["bus_id"] for device in devices] == BUSES
    assert len({device["id"] for device in devices}) == DIES
    assert {device["model"] for device in devices} == {MODEL}
    for die, device in enumerate(devices):
        assert CORE - device["readings"].keys() == ({"power_watts"} if die % 2 else set())
        assert device["origin"]["utilization_ratio"] == "amdgpu-sysfs"
        assert device["readings"]["compute_units"] == 104
