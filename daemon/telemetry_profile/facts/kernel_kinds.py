"""What a kernel or an operator does, by the words in its name."""

from __future__ import annotations

import re

from telemetry_profile.facts.file_facts import Work

# The collective libraries of the vendors: NCCL, RCCL, MCCL (Moore Threads, MetaX), HCCL (Ascend), CNCL (Cambricon), BKCL (Kunlunxin),
# oneCCL, ECCL (Enflame), IXCCL; AMD's MSCCL++; and the names of collectives where an operator's name is all there is.
_COMMUNICATION = re.compile(
    r"^(n|r|m|h|c|bk|one|e|ix|x|ms)ccl|(nccl|rccl|mccl|hccl|cncl|bkcl|ixccl|mscclpp)(dev)?(kernel|_)"
    r"|^(hcom_|allreduce|allgather|reducescatter|alltoall|broadcast_|c10d::|record_param_comms)"
    r"|^(send|receive|broadcast)-op\d"  # as MindSpore counts its operators
    r"|all_?reduce_?kernel|cross_device_reduce|(^|_)(hcom|mc2)_",
    re.IGNORECASE,
)
_COPY = re.compile(
    r"^(\[?((cuda|hip) )?(unified memory )?mem(cpy|set|ory[ _](copy|set))|\[?hip mem|copy(hostto|deviceto)|(host|device|peer) to (host|device|peer)\Z|fillbuffer\Z|_?_?amd_rocclr_(copy|fill)buffer)",
    re.IGNORECASE,
)


def work_of(name: str) -> Work:
    """What runs under this name: a collective, a copy, or else computation."""
    if _COMMUNICATION.search(name):
        return "communication"
    return "copy" if _COPY.match(name) else "compute"
