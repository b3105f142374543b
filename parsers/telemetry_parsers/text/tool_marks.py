"""Identifies a tool by words that no other tool prints."""

from __future__ import annotations

from collections.abc import Mapping

# Maps the source or command of each tool to strings that identify the tool's output.
TOOL_MARKS: Mapping[str, tuple[str, ...]] = {
    "nvidia-smi": ("NVIDIA-SMI", "NVSMI LOG", "<nvidia_smi_log>", "power.draw [W]", "memory.total [MiB]"),
    "amdgpu-sysfs": ("gpu_busy_percent", "simd_per_cu"),
    "amd-smi": ("AMD-SMI", "AMDSMI", "amd-smi ", '"gpu_data"'),
    "rocm-smi": ("ROCm System Management Interface", "ROCM-SMI", "GPU[0]", "End of ROCm SMI"),
    "rocminfo": ("HSA System Attributes", "HSA Agents", "ROCk module", "hygon module is loaded"),
    "hy-smi": ("HCU[", "DCU[", "HCU%", "DCU%", "HCU use (%)", "DCU use (%)", "End of SMI Log"),
    "mthreads-gmi": ("mthreads-gmi", "MTBios Version", "MPC Capable"),
    "npu-smi": ("npu-smi", "NPU ID", "NPU Name", "Chip Logic ID"),
    "hccn_tool": ("hccn_tool", "link status:", "roce_rx_"),
    # Moffett's tool is also called mx-smi.
    "Moffett's mx-smi": ("MOFFETT-SMI", "SOLA Version"),
    "cnmon": ("CNMON",),
    "mx-smi": ("MX-SMI", "mx-smi", "MetaX System Management", "HT-SMI", "ht-smi", "Mars System Management"),
    "ixsmi": ("IX-ML", "ixsmi", "Iluvatar", "gpu.power.draw"),
    "efsmi": ("EFSMI", "Enflame System Management"),
    "xpu-smi-kunlun": ("XPU-RT", "XPUSMI LOG", "KUNLUNXIN", "Kunlun", '"P800'),
    # These words are searched for last, because other tools may print them.
    "rocm-smi or hy-smi": ('"card0"',),
    "xpu-smi": (
        "Intel XPU", "Intel(R)", "Xe Link", "GPU Engines", "PCI BDF Address", "pci_bdf_address", "DeviceID", "DeviceId",
    ),
}  # fmt: skip


def identify_tool(text: str) -> str | None:
    """Return the tool that printed the text, or None if it contains no tool's identifying words."""
    return next((tool for tool, marks in TOOL_MARKS.items() if any(mark in text for mark in marks)), None)


def foreign_tool(text: str, expected_tool: str) -> str | None:
    """Return the tool that printed the text, or None if it is unknown or the expected tool."""
    return None if any(mark in text for mark in TOOL_MARKS.get(expected_tool, ())) else identify_tool(text)
