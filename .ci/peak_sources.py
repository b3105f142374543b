"""The documents behind the table of peaks, by the short names in its rows. The daemon does not need their addresses."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

SOURCES: Mapping[str, str] = MappingProxyType(
    {
        "nvidia-ampere": "https://developer.nvidia.com/blog/nvidia-ampere-architecture-in-depth/ (table: P100, V100, A100)",
        "nvidia-a100": "https://www.nvidia.com/en-us/data-center/a100/ (specifications: 80GB PCIe and SXM)",
        "nvidia-v100": "https://images.nvidia.com/content/technologies/volta/pdf/volta-v100-datasheet-update-us-1165301-r5.pdf",
        "nvidia-t4": "https://www.nvidia.com/en-us/data-center/tesla-t4/ (specifications)",
        "nvidia-a30": "https://www.nvidia.com/content/dam/en-zz/Solutions/data-center/products/a30-gpu/pdf/a30-datasheet.pdf",
        "nvidia-a10": "https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center/a10/pdf/a10-datasheet.pdf",
        "nvidia-a40": "https://images.nvidia.com/content/Solutions/data-center/a40/nvidia-a40-datasheet.pdf",
        "nvidia-ga102": "https://www.nvidia.com/content/PDF/nvidia-ampere-ga-102-gpu-architecture-whitepaper-v2.pdf",
        "nvidia-ada": "https://images.nvidia.com/aem-dam/Solutions/geforce/ada/nvidia-ada-gpu-architecture.pdf (appendix A)",
        "nvidia-l4": "https://www.nvidia.com/en-us/data-center/l4/ (specifications; with sparsity, halved)",
        "nvidia-l40": "https://www.nvidia.com/en-us/data-center/l40/ (specifications)",
        "nvidia-l40s": "https://www.nvidia.com/en-us/data-center/l40s/ (specifications)",
        "nvidia-h100": "https://resources.nvidia.com/en-us-tensor-core (H100 whitepaper V1.04, tables 1 and 3)",
        "nvidia-h200": "https://www.nvidia.com/en-us/data-center/h200/ (specifications; with sparsity, halved)",
        "nvidia-gh200": "https://www.nvidia.com/en-us/data-center/grace-hopper-superchip/ (specifications; with sparsity, halved)",
        "nvidia-forum": "https://forums.developer.nvidia.com/t/how-to-calculate-the-tensor-core-fp16-performance-of-h100/244727",
        "ml-engineering": "https://github.com/stas00/ml-engineering/blob/master/compute/accelerator/README.md (TFLOPS comparison table)",
        "techpowerup": "https://www.techpowerup.com/gpu-specs/ (shading units and boost clock of that card)",
        "rocm-mi100": "https://rocm.docs.amd.com/en/latest/conceptual/gpu-arch/mi100.html",
        "rocm-mi250": "https://rocm.docs.amd.com/en/latest/conceptual/gpu-arch/mi250.html",
        "rocm-mi300": "https://rocm.docs.amd.com/en/latest/conceptual/gpu-arch/mi300.html",
        "amd-cdna2": "https://www.amd.com/content/dam/amd/en/documents/instinct-business-docs/white-papers/amd-cdna2-white-paper.pdf",
        "amd-cdna3": "https://www.amd.com/content/dam/amd/en/documents/instinct-tech-docs/white-papers/amd-cdna-3-white-paper.pdf",
        "amd-cdna4": "https://www.amd.com/content/dam/amd/en/documents/instinct-tech-docs/white-papers/amd-cdna-4-architecture-whitepaper.pdf",
    }
)
