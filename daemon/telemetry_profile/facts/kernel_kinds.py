"""What names mean: whether a kernel or an operator computes, communicates or copies, and which ranges are steps or waits for data."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

from telemetry_exporters.text import cut
from telemetry_profile.format_contract import Work

# The collective libraries of the vendors: NCCL, RCCL, MCCL (Moore Threads, MetaX), HCCL (Ascend), CNCL (Cambricon), BKCL (Kunlunxin),
# oneCCL, ECCL (Enflame), IXCCL; AMD's MSCCL++; NVSHMEM, DeepEP, mori, and TransformerEngine's user buffers.
_LIBRARY = re.compile(
    r"^(n|r|m|h|c|bk|one|e|ix|x|ms)ccl|(nccl|rccl|mccl|hccl|cncl|bkcl|ixccl|mscclpp)(dev)?(kernel|_)"
    r"|^(hcom_|c10d::|record_param_comms)|(^|_)(hcom|mc2)_|(roc|nv)shmem|userbuffers|quick_?reduce"
    r"|(deep_ep|dpsk::ep|deep_?ep)\w*::(?!layout)\w*::\w*(dispatch|combine|barrier|clean)|(deep_ep|dpsk2ep)\w*(dispatch|combine)"
    r"|Ep(Dispatch|Combine)\w*Kernel|moe_?distribute_?(dispatch|combine)|moe_?alltoall|\bmoe(Prepare)?(Dispatch|Combine)Kernel",
    re.IGNORECASE,
)
# Collectives by their own names, wherever they stand; a reduction within a warp or a block goes over no link.
_COLLECTIVE = re.compile(
    r"(?<!warp)(?<!warp_)(?<!block)(?<!block_)(all_?reduce|all_?gather|reduce_?scatter|all_?to_?all)"
    r"|cross_device_reduce|(^|::)(ncclx?|symm)?(send_?recv|barrier_all)|^(send|receive|broadcast)-op\d|^broadcast_(?!\w*(elementwise|binary|unary|to(_|\b)|in_dim))",
    re.IGNORECASE,
)
_MULTIPLIES = re.compile(
    r"matmul|gemm|(^|[_:]|grouped|batch)mm([_A-Z\d]|\Z)|attention|ffn|(all_?reduce|ar|finalize)\w*fusion|rms_?norm|layer_?norm",
    re.IGNORECASE,
)
_WAIT = re.compile(r"(event|notify)_(wait|record)\Z", re.IGNORECASE)
_COPY = re.compile(
    r"^(\[?((cuda|hip) )?(unified memory )?mem(cpy|set|ory[ _](copy|set))|\[?hip mem|copy(hostto|deviceto)|(host|device|peer) to (host|device|peer)\Z|fillbuffer\Z|_?_?amd_rocclr_(copy|fill)buffer|dma_request\Z)",
    re.IGNORECASE,
)
_NAMESPACE = re.compile(r"\b[A-Za-z_]\w*::")
_ARGUMENTS = re.compile(r"[<(].*", re.DOTALL)
# What a kernel is for, by words in its name; the first that fits.
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
# `ProfilerStep#12`, `step 12`, `train_step_12`, `Iteration 3`, `iter:7`; a word alone, such as `step`, may be any part of one.
_STEP = re.compile(
    r"(profiler ?step|(train(ing)?|global|optimi[sz]ation)?[ _-]?(step|iteration|iter))[ _#:=-]*\d+\Z", re.IGNORECASE
)
_DATA = re.compile(
    r"enumerate\(dataloader\)#.*__next__|(data_?loader|data[ _]load(ing)?|get_?batch|next_?batch|load[ _]data|batch_generator)\b",
    re.IGNORECASE,
)


def work_of(name: str) -> Work:
    """What runs under this name: a collective, a copy, a wait, or else computation; `fused` is a collective within a computation."""
    if _COPY.match(name):
        return "copy"
    own = _own_name(name)
    if _COLLECTIVE.search(own) and not _LIBRARY.match(own):
        return "fused" if _MULTIPLIES.search(own) else "communication"
    if _LIBRARY.search(own):
        return "communication"
    return "wait" if _WAIT.match(own) else "compute"


def family_of(name: str) -> str:
    """The kind of computation, such as `GEMM`; "other" where the name does not say."""
    return next((family for family, words in _FAMILIES if words.search(name)), "other")


def short_name(name: str) -> str:
    """A C++ name without its result, parameters, namespaces and the words that all names have."""
    plain = name.replace("(anonymous namespace)::", "").removeprefix("void ")
    depth = 0
    for place, character in enumerate(plain):
        depth += (character == "<") - (character == ">" and plain[place - 1] != "-")
        if character == "(" and depth <= 0 and plain[:place].strip() == plain[:place] != "":
            plain = plain[:place]
            break
    return _NAMESPACE.sub("", plain) or name


def distinct(names: Sequence[str], width: int) -> list[str]:
    """The names in so many columns; those that begin alike are shown by the part that differs."""
    shown = [cut(name, width) for name in names]
    found, head = [], width // 3
    for name, short in zip(names, shown, strict=True):
        alike = [other for other in names if other != name and cut(other, width) == short]
        same = len(list(takewhile(lambda letters: len(set(letters)) == 1, zip(name, *alike, strict=False))))
        found.append(cut(f"{name[:head]}…{name[max(head, same - 4) :]}", width) if alike else short)
    return found


def _own_name(name: str) -> str:
    """The function's own name, without the type that it returns, template arguments and parameters."""
    plain = name.replace("(anonymous namespace)", "anonymous").removeprefix("void ")
    return _ARGUMENTS.sub("", plain) or plain


def is_step(name: str) -> bool:
    """Whether a range of this name is one training step."""
    return bool(_STEP.match(name.strip()))


def is_data_wait(name: str) -> bool:
    """Whether the program waits for its data in a range of this name."""
    return bool(_DATA.match(name.strip()))
