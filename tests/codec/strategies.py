"""Hypothesis strategies for every type that has a plain form."""

from __future__ import annotations

import math
from typing import get_args

from hypothesis import strategies as st

from telemetry_parsers.codec.captures import DescribedParser
from telemetry_parsers.model import (
    REASONS,
    STATES,
    Absent,
    Capture,
    Command,
    Device,
    Event,
    Failure,
    Files,
    Form,
    Kind,
    Library,
    Metric,
    Outcome,
    Output,
    Poll,
    Problem,
    Process,
    Reading,
    Report,
    Scope,
    Tier,
)

# Output of tools is decoded with surrogateescape: lone low surrogates are part of what must survive.
texts = st.text(
    st.one_of(st.characters(exclude_categories=["Cs"]), st.characters(min_codepoint=0xDC80, max_codepoint=0xDCFF)),
    max_size=12,
)
numbers = st.floats(allow_nan=False, allow_infinity=False)
whole_numbers = st.integers(-(2**63), 2**63 - 1)
lines = st.lists(texts, max_size=3).map(tuple)
pairs = st.lists(st.tuples(texts, texts), max_size=3).map(tuple)
plain_data = st.recursive(
    st.one_of(st.none(), st.booleans(), whole_numbers, numbers, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=8,
)
requests = st.one_of(
    st.builds(
        Command,
        alternatives=st.lists(lines, max_size=3).map(tuple),
        env=pairs,
        on_deadline=st.sampled_from(["kill", "abandon"]),
        per=st.sampled_from([None, "card", "device"]),
        folders=lines,
    ),
    st.builds(Files, globs=lines, links=lines, binary=lines, skip_when=pairs),
    st.builds(Library, reader=texts, calls=lines),
    st.builds(Library, reader=texts, calls=lines, module=texts.filter(bool), package=texts),
)
outputs = st.builds(
    Output, name=texts, target=texts, text=texts, stderr=texts, status=st.none() | whole_numbers, data=plain_data
)
failures = st.builds(Failure, state=st.sampled_from(STATES), reason=st.none() | st.sampled_from(REASONS), text=texts)
captures = st.builds(
    Capture,
    source=texts,
    poll=texts,
    request=requests,
    outputs=st.lists(outputs, max_size=3).map(tuple),
    failure=st.none() | failures,
    seconds=numbers,
    cpu_seconds=numbers,
    wall_time=numbers,
    monotonic_time=numbers,
)
polls = st.builds(
    Poll,
    name=texts,
    request=requests,
    tier=st.sampled_from(get_args(Tier)),
    interval=numbers,
    deadline=numbers,
    lists_devices=st.booleans(),
    wakes=st.booleans(),
)
metrics = st.builds(
    Metric,
    name=texts,
    kind=st.sampled_from(get_args(Kind)),
    unit=texts,
    help=texts,
    low=numbers | st.just(-math.inf),
    high=numbers | st.just(math.inf),
    label=texts,
    words=lines,
    scope=st.sampled_from(get_args(Scope)),
    core=st.booleans(),
    card_level=st.booleans(),
)
parsers = st.builds(
    DescribedParser,
    contract_version=whole_numbers,
    name=texts,
    vendor=texts,
    gives=lines,
    polls=st.lists(polls, max_size=2).map(tuple),
    metrics=st.lists(metrics, max_size=2).map(tuple),
)
optional_texts = st.none() | texts
devices = st.builds(
    Device,
    vendor=texts,
    index=st.none() | whole_numbers,
    model=optional_texts,
    uuid=optional_texts,
    bus_id=optional_texts,
    partition=optional_texts,
    parent=st.none() | whole_numbers,
    serial=optional_texts,
    driver=optional_texts,
    up=st.booleans(),
    simulated=st.booleans(),
    facts=pairs,
)
readings = st.builds(
    Reading,
    device=st.none() | whole_numbers,
    metric=texts,
    value=numbers | st.sampled_from(Absent),
    label=texts,
)
reports = st.builds(
    Report,
    outcome=st.sampled_from(get_args(Outcome)),
    reason=st.none() | st.sampled_from(REASONS),
    devices=st.lists(devices, max_size=2).map(tuple),
    readings=st.lists(readings, max_size=3).map(tuple),
    events=st.lists(
        st.builds(Event, device=st.none() | whole_numbers, code=texts, text=texts, wall_time=st.none() | numbers),
        max_size=2,
    ).map(tuple),
    processes=st.lists(
        st.builds(Process, device=whole_numbers, pid=whole_numbers, name=texts, memory_used_bytes=st.none() | numbers),
        max_size=2,
    ).map(tuple),
    problems=st.lists(st.builds(Problem, where=texts, text=texts), max_size=2).map(tuple),
    unknown_fields=lines,
    facts=pairs,
    index_space=texts,
    form=st.sampled_from(get_args(Form)),
)
