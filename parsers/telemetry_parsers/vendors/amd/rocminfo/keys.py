"""The keys that rocminfo prints, by the block they stand in; any other key is an unknown field."""

from __future__ import annotations

from collections.abc import Mapping

SYSTEM = frozenset(
    {
        "runtime version", "runtime ext version", "system timestamp freq.", "sig. max wait duration", "machine model",
        "system endianness", "mwaitx", "xnack enabled", "dmabuf support", "vmm support",
    }
)  # fmt: skip
AGENT = frozenset(
    {
        "name", "uuid", "marketing name", "vendor name", "feature", "profile", "float round mode", "max queue number",
        "queue min size", "queue max size", "queue type", "node", "device type", "chip id", "asic revision",
        "cacheline size", "max clock freq. (mhz)", "bdfid", "internal node id", "compute unit", "simds per cu",
        "shader engines", "shader arrs. per eng.", "watchpts on addr. ranges", "coherent host access",
        "memory properties", "features", "fast f16 operation", "wavefront size", "workgroup max size",
        "workgroup max size per dimension", "max waves per cu", "max work-item per cu", "grid max size",
        "grid max size per dimension", "max fbarriers/workgrp", "packet processor ucode", "sdma engine ucode",
        "iommu support",
        # Of ROCm 1 to 3, in the words of the time.
        "max clock frequency (mhz)", "waves per cu", "max number of fbarriers per workgroup",
    }
)  # fmt: skip
CACHE = frozenset({"l1", "l2", "l3", "l4"})
POOL = frozenset(
    {
        "segment", "size", "allocatable", "alloc granule", "alloc recommended granule", "alloc alignment",
        "accessible by all", "acessible by all",
    }
)  # fmt: skip
ISA = frozenset(
    {
        "name", "machine models", "profiles", "default rounding mode", "fast f16", "workgroup max size",
        "workgroup max size per dimension", "grid max size", "grid max size per dimension", "fbarrier max size",
        "workgroup max dimension", "grid max dimension",
    }
)  # fmt: skip
# The headings that open a block of an agent. `Cache Info` stands among the agent's own keys, which go on behind it.
BLOCKS: Mapping[str, str] = {"cache info": "", "pool info": "pool", "isa info": "isa"}
KNOWN: Mapping[str, frozenset[str]] = {"system": SYSTEM, "": AGENT | CACHE, "pool": POOL, "isa": ISA}
# Hygon's runtime calls its cards DCU, and its tools HCU since DTK 25.04.
ACCELERATORS = frozenset({"GPU", "DCU", "HCU"})
HYGON_TYPES = frozenset({"DCU", "HCU"})
# Agents that are no card: processors, signal processors and the AI engines of Ryzen.
NO_CARDS = frozenset({"CPU", "DSP", "AIE"})
HYGON_NAMES = ("hygon", "haiguang", "c-3000")
