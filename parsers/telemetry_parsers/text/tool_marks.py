"""Words that only one tool prints. They identify another tool's output."""

from __future__ import annotations

from collections.abc import Mapping

# By tool: the name of its source or, if different, of its command.
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
    # Moffett's tool is called mx-smi, too.
    "Moffett's mx-smi": ("MOFFETT-SMI", "SOLA Version"),
    "cnmon": ("CNMON",),
    "mx-smi": ("MX-SMI", "mx-smi", "MetaX System Management", "HT-SMI", "ht-smi", "Mars System Management"),
    "ixsmi": ("IX-ML", "ixsmi", "Iluvatar", "gpu.power.draw"),
    "efsmi": ("EFSMI", "Enflame System Management"),
    "xpu-smi-kunlun": ("XPU-RT", "XPUSMI LOG", "KUNLUNXIN", "Kunlun", '"P800'),
    # Other tools may print these words, too, so that they come last.
    "rocm-smi or hy-smi": ('"card0"',),
    "xpu-smi": (
        "Intel XPU", "Intel(R)", "Xe Link", "GPU Engines", "PCI BDF Address", "pci_bdf_address", "DeviceID", "DeviceId",
    ),
}  # fmt: skip


def tool_of(text: str) -> str | None:
    """Return the tool whose marks are in this text, or None."""
    return next((tool for tool, marks in TOOL_MARKS.items() if any(mark in text for mark in marks)), None)


def foreign_tool(text: str, tool_asked: str) -> str | None:
    """Return the other tool whose marks are in this text, or None if `own`'s marks are in the text, too."""
    return None if any(mark in text for mark in TOOL_MARKS.get(tool_asked, ())) else tool_of(text)
