"""Folders as the drivers of AMD's and Hygon's cards show them; blobs are built byte by byte from the offsets."""

import struct
from collections.abc import Mapping
from pathlib import Path

from kits.files import read_files
from telemetry_parsers.model import Capture, Files, Report
from telemetry_parsers.vendors.amd.amdgpu_sysfs import PARSER

READINGS, LINKS, PROCESSES, FACTS = PARSER.polls


class Sysfs:
    """A root folder with /sys below it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.root.mkdir(parents=True, exist_ok=True)

    def card(self, bus_id: str, files: Mapping[str, str | bytes], driver: str = "amdgpu") -> Path:
        folder = self.root / "sys/devices/pci0000:00" / bus_id
        self._write(folder, files)
        link = self.root / "sys/bus/pci/drivers" / driver / bus_id
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(folder)
        # The daemon counts the cards on the bus here.
        devices = self.root / "sys/bus/pci/devices"
        devices.mkdir(parents=True, exist_ok=True)
        (devices / bus_id).symlink_to(folder)
        return folder

    def node(self, number: int, gpu_id: str, bank_bytes: int = 0, **properties: int) -> None:
        """Write a node of KFD's topology with a memory bank of this size."""
        files = {"gpu_id": gpu_id, "properties": _lines(properties)}
        if bank_bytes:
            files["mem_banks/0/properties"] = _lines({"heap_type": 1, "size_in_bytes": bank_bytes})
        self._write(self.root / f"sys/class/kfd/kfd/topology/nodes/{number}", files)

    def process(self, pid: int, gpu_id: str, used_bytes: int) -> None:
        self._write(self.root / f"sys/class/kfd/kfd/proc/{pid}", {f"vram_{gpu_id}": str(used_bytes)})

    def module(self, name: str, version: str) -> None:
        self._write(self.root / f"sys/module/{name}", {"version": version})

    def capture(self, position: int = 0) -> Capture:
        poll = PARSER.polls[position]
        assert isinstance(poll.request, Files)
        return Capture(PARSER.name, poll.name, poll.request, read_files(poll.request, self.root))

    def report(self, position: int = 0) -> Report:
        return PARSER.parse(self.capture(position))

    @staticmethod
    def _write(folder: Path, files: Mapping[str, str | bytes]) -> None:
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else f"{content}\n".encode())


def _lines(numbers: Mapping[str, int]) -> str:
    return "".join(f"{name} {value}\n" for name, value in numbers.items())


def gpu_node(location_id: int, unique_id: int, **more: int) -> dict[str, int]:
    """Return the properties of a compute node with 38 compute units."""
    common = {"simd_count": 152, "simd_per_cu": 4, "vendor_id": 4098, "domain": 0, "gfx_target_version": 90402}
    return {**common, "location_id": location_id, "unique_id": unique_id, "mem_banks_count": 1, **more}


def sensors(**files: str) -> dict[str, str]:
    return {f"hwmon/hwmon4/{name}": text for name, text in files.items()}


def mi210(busy: int = 37) -> dict[str, str | bytes]:
    """Return the files of an Instinct card with all readings."""
    return {
        "vendor": "0x1002", "device": "0x740f", "product_name": "AMD INSTINCT MI210", "unique_id": "a1b2c3d4e5f60718",
        "serial_number": "692251000123", "vbios_version": "113-D67301-063", "numa_node": "1",
        "power/runtime_status": "active", "gpu_busy_percent": str(busy), "mem_busy_percent": "12",
        "mem_info_vram_total": "68702699520", "mem_info_vram_used": "11059200",
        "pp_dpm_sclk": "0: 500Mhz\n1: 800Mhz *\n2: 1700Mhz", "pp_dpm_mclk": "0: 400Mhz\n3: 1600Mhz *",
        "power_dpm_force_performance_level": "auto", "pcie_replay_count": "4", "current_link_speed": "16.0 GT/s PCIe",
        "max_link_speed": "16.0 GT/s PCIe", "current_link_width": "16", "max_link_width": "16",
        "ras/umc_err_count": "ue: 0\nce: 3", "ras/gfx_err_count": "ue: 1\nce: 0", "ras/features": "feature mask: 0x7fff",
        **sensors(
            name="amdgpu", temp1_input="41000", temp1_label="edge", temp1_crit="100000", temp1_emergency="105000",
            temp2_input="44000", temp2_label="junction", temp3_input="52000", temp3_label="mem", temp3_crit="0",
            power1_average="92000000", power1_cap="300000000", power1_cap_max="300000000", power1_cap_min="0",
            power1_cap_default="300000000",
        ),
    }  # fmt: skip


def mi300x(metrics: bytes = b"") -> dict[str, str | bytes]:
    """Return a card without an edge sensor and with instantaneous power only; many readings are in gpu_metrics."""
    fields = {4: ("H", 47), 6: ("H", 39), 10: ("H", 141), 12: ("H", 3), 14: ("H", 1), 24: ("Q", 65536 * 10)}
    clocks = {240: ("H", 133), 242: ("H", 2100), 256: ("H", 29), 280: ("H", 900)}
    return {
        "vendor": "0x1002", "device": "0x74a1", "power/runtime_status": "unsupported", "current_compute_partition": "CPX",
        "current_memory_partition": "NPS1", "mem_info_vram_total": "206141652992", "mem_info_vram_used": "309329920",
        "gpu_metrics": metrics or blob(1, 4, 288, {**fields, **clocks}),
        **sensors(temp2_input="47000", temp2_label="junction", temp3_input="39000", temp3_label="mem", power1_input="141000000", power1_label="PPT", power1_cap="750000000"),
    }  # fmt: skip


def radeon(status: str = "suspended") -> dict[str, str | bytes]:
    """Return a card with runtime power management, suspended by default."""
    return {
        "vendor": "0x1002", "device": "0x73bf", "power/runtime_status": status, "gpu_busy_percent": "0",
        "pp_dpm_sclk": "S: 19Mhz *\n0: 500Mhz\n1: 2500Mhz",
        **sensors(temp1_input="33000", temp1_label="edge", fan1_input="660", fan1_max="3300", in0_input="731", in0_label="vddgfx"),
    }  # fmt: skip


def blob(format_revision: int, content_revision: int, size: int, fields: Mapping[int, tuple[str, int]]) -> bytes:
    """Return a gpu_metrics file in which only the header and these fields have values."""
    content = bytearray(b"\xff" * size)
    struct.pack_into("<HBB", content, 0, size, format_revision, content_revision)
    for offset, (code, number) in fields.items():
        struct.pack_into(f"<{code}", content, offset, number)
    return bytes(content)


def values(report: Report, device: int = 0) -> dict[str, object]:
    """Return a device's readings by metric and label, without its performance level."""
    return {
        f"{item.metric} {item.label}".strip(): item.value
        for item in report.readings
        if item.device == device and item.metric != "performance_level"
    }
