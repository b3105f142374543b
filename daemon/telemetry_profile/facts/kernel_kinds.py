"""Classifies kernels and marked ranges by their names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

from telemetry_exporters.text import cut
from telemetry_profile.format_contract import Work

# MCCL is from Moore Threads and MetaX, HCCL from Ascend, CNCL from Cambricon, BKCL from Kunlunxin, ECCL from Enflame.
_COLLECTIVE_LIBRARY = re.compile(
    r"^(n|r|m|h|c|bk|one|e|ix|x|ms)ccl|(nccl|rccl|mccl|hccl|cncl|bkcl|ixccl|mscclpp)(dev)?(kernel|_)"
    r"|^(hcom_|c10d::|record_param_comms)|(^|_)(hcom|mc2)_|(roc|nv)shmem|userbuffers|quick_?reduce"
    r"|(deep_ep|dpsk::ep|deep_?ep)\w*::(?!layout)\w*::\w*(dispatch|combine|barrier|clean)|(deep_ep|dpsk2ep)\w*(dispatch|combine)"
    r"|Ep(Dispatch|Combine)\w*Kernel|moe_?distribute_?(dispatch|combine)|moe_?alltoall|\bmoe(Prepare)?(Dispatch|Combine)Kernel",
    re.IGNORECASE,
)
# A reduction within a warp or a block is not a collective.
_COLLECTIVE_OPERATION = re.compile(
    r"(?<!warp)(?<!warp_)(?<!block)(?<!block_)(all_?reduce|all_?gather|reduce_?scatter|all_?to_?all)"
    r"|cross_device_reduce|(^|::)(ncclx?|symm)?(send_?recv|barrier_all)|^(send|receive|broadcast)-op\d|^broadcast_(?!\w*(elementwise|binary|unary|to(_|\b)|in_dim))",
    re.IGNORECASE,
)
_COMPUTATION = re.compile(
    r"matmul|gemm|(^|[_:]|grouped|batch)mm([_A-Z\d]|\Z)|attention|ffn|(all_?reduce|ar|finalize)\w*fusion|rms_?norm|layer_?norm",
    re.IGNORECASE,
)
_STREAM_WAIT = re.compile(r"(event|notify)_(wait|record)\Z", re.IGNORECASE)
_COPY = re.compile(
    r"^(\[?((cuda|hip) )?(unified memory )?mem(cpy|set|ory[ _](copy|set))|\[?hip mem|copy(hostto|deviceto)|(host|device|peer) to (host|device|peer)\Z|fillbuffer\Z|_?_?amd_rocclr_(copy|fill)buffer|dma_request\Z)",
    re.IGNORECASE,
)
_NAMESPACE = re.compile(r"\b[A-Za-z_]\w*::")
_AFTER_FUNCTION_NAME = re.compile(r"[<(].*", re.DOTALL)
# The first row whose words match a kernel's name is used.
_FAMILIES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (family, re.compile(words, re.IGNORECASE))
    for family, words in (
        ("attention", r"attention|attn|fmha|flash_fwd|flash_bwd|sage_fwd|mla_|softmaxforward|softmax"),
        (
            "convolution",
            r"conv(?!ert)|winograd|wgrad|dgrad|fprop|im2col|im2d2col|igemm_(fwd|bwd|wrw)|scudnn|implicit_gemm",
        ),
        ("GEMM", r"gemm|gemv|matmul|cijk_|cutlass|nvjet|splitkreduce|bmm_|(^|_)mm(_|\Z)|^fc-|dot_kernel|_tensorop_"),
        ("normalization", r"norm(?!al_)|batch_?norm|bn_(fw|bw)"),
        ("reduction", r"reduce|reduction|scan|sort|cumsum|topk|histogram"),
        (
            "elementwise",
            r"elementwise|triton_(poi|per|red)|pointwise|activation|act_and_mul|multi_tensor_apply|functor",
        ),
    )
)
# Matches `ProfilerStep#12`, `train_step_12`, `Iteration 3` and `iter:7`, but no range without a number.
_STEP = re.compile(
    r"(profiler ?step|(train(ing)?|global|optimi[sz]ation)?[ _-]?(step|iteration|iter))[ _#:=-]*\d+\Z", re.IGNORECASE
)
_DATA_WAIT = re.compile(
    r"enumerate\(dataloader\)#.*__next__|(data_?loader|data[ _]load(ing)?|get_?batch|next_?batch|load[ _]data|batch_generator)\b",
    re.IGNORECASE,
)


def work_of(name: str) -> Work:
    """Return the kind of work that the name of a kernel or copy indicates."""
    if _COPY.match(name):
        return "copy"
    function = _qualified_name(name)
    if _COLLECTIVE_OPERATION.search(function) and not _COLLECTIVE_LIBRARY.match(function):
        return "fused" if _COMPUTATION.search(function) else "communication"
    if _COLLECTIVE_LIBRARY.search(function):
        return "communication"
    return "wait" if _STREAM_WAIT.match(function) else "compute"


def family_of(name: str) -> str:
    """Return a kernel's kind of computation, such as `GEMM`, or "other"."""
    return next((family for family, pattern in _FAMILIES if pattern.search(name)), "other")


def short_name(name: str) -> str:
    """Return a C++ function's name with its template arguments, but without result type, parameters and namespaces."""
    signature = name.replace("(anonymous namespace)::", "").removeprefix("void ")
    depth = 0
    for position, character in enumerate(signature):
        depth += (character == "<") - (character == ">" and signature[position - 1] != "-")
        if character == "(" and depth <= 0 and signature[:position].strip() == signature[:position] != "":
            signature = signature[:position]
            break
    return _NAMESPACE.sub("", signature) or name


def shorten_distinctly(names: Sequence[str], width: int) -> list[str]:
    """Cut the names to a width. Names that would become equal are shortened where they agree."""
    shortened, head_length = [], width // 3
    for name in names:
        cut_name = cut(name, width)
        similar_names = [other for other in names if other != name and cut(other, width) == cut_name]
        common = list(takewhile(lambda letters: len(set(letters)) == 1, zip(name, *similar_names, strict=False)))
        distinct = f"{name[:head_length]}…{name[max(head_length, len(common) - 4) :]}"
        shortened.append(cut(distinct, width) if similar_names else cut_name)
    return shortened


def _qualified_name(name: str) -> str:
    """Return a C++ function's name with its namespaces, but without result type, template arguments and parameters."""
    signature = name.replace("(anonymous namespace)", "anonymous").removeprefix("void ")
    return _AFTER_FUNCTION_NAME.sub("", signature) or signature


def is_step(name: str) -> bool:
    """Return whether a range with this name marks a training step."""
    return bool(_STEP.match(name.strip()))


def is_data_wait(name: str) -> bool:
    """Return whether a range with this name marks a wait for data."""
    return bool(_DATA_WAIT.match(name.strip()))
