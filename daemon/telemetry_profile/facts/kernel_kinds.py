"""What names mean: whether a kernel or an operator computes, communicates or copies, and which ranges are steps or waits for data."""

from __future__ import annotations

import re

from telemetry_profile.format_contract import Work

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
# `ProfilerStep#12`, `step 12`, `train_step_12`, `Iteration 3`, `iter:7`; a word alone, such as `step`, may be any part of one.
_STEP = re.compile(
    r"(profiler ?step|(train(ing)?|global|optimi[sz]ation)?[ _-]?(step|iteration|iter))[ _#:=-]*\d+\Z", re.IGNORECASE
)
_DATA = re.compile(
    r"enumerate\(dataloader\)#.*__next__|(data_?loader|data[ _]load(ing)?|get_?batch|next_?batch|load[ _]data|batch_generator)\b",
    re.IGNORECASE,
)


def work_of(name: str) -> Work:
    """What runs under this name: a collective, a copy, or else computation."""
    if _COMMUNICATION.search(name):
        return "communication"
    return "copy" if _COPY.match(name) else "compute"


def is_step(name: str) -> bool:
    """Whether a range of this name is one training step."""
    return bool(_STEP.match(name.strip()))


def is_data_wait(name: str) -> bool:
    """Whether the program waits for its data in a range of this name."""
    return bool(_DATA.match(name.strip()))
