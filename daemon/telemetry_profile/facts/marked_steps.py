"""Which ranges that a program marks are steps, and which wait for data."""

from __future__ import annotations

import re
from collections.abc import Hashable

from telemetry_profile.facts.timeline import Timeline

# `ProfilerStep#12`, `step 12`, `train_step_12`, `Iteration 3`, `iter:7`; a word alone, such as `step`, may be any part of one.
_STEP = re.compile(
    r"(profiler ?step|(train(ing)?|global|optimi[sz]ation)?[ _-]?(step|iteration|iter))[ _#:=-]*\d+\Z", re.IGNORECASE
)
_DATA = re.compile(
    r"enumerate\(dataloader\)#.*__next__|(data_?loader|data[ _]load(ing)?|get_?batch|next_?batch|load[ _]data|batch_generator)\b",
    re.IGNORECASE,
)


def is_step(name: str) -> bool:
    """Whether a range of this name is one training step."""
    return bool(_STEP.match(name.strip()))


def is_data_wait(name: str) -> bool:
    """Whether the program waits for its data in a range of this name."""
    return bool(_DATA.match(name.strip()))


def is_kept(
    timeline: Timeline, name: str, begin_ns: int | None, length_ns: int | None, process: Hashable = None
) -> bool:
    """Whether a range of the host is a step or a wait for data; the timeline then has it."""
    if is_step(name):
        timeline.step(name.strip(), begin_ns, length_ns, process=process)
        return True
    if is_data_wait(name):
        timeline.data_wait(begin_ns, length_ns, process)
        return True
    return False
