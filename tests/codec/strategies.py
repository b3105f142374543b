"""Hypothesis strategies for every type that has a plain form."""

import math
from typing import Any

from hypothesis import strategies as st

from kits.drawn import Drawn, numbers, whole_numbers
from telemetry_parsers.codec.captures import DescribedParser
from telemetry_parsers.model import Capture, Library, Metric, Poll, Report

# Output of tools is decoded with surrogateescape, so lone low surrogates must survive.
texts = st.text(
    st.one_of(st.characters(exclude_categories=["Cs"]), st.characters(min_codepoint=0xDC80, max_codepoint=0xDCFF)),
    max_size=12,
)
plain_data = st.recursive(
    st.one_of(st.none(), st.booleans(), whole_numbers, numbers, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=8,
)
_drawn = Drawn({str: texts, Any: plain_data}, most=2)
_calls = _drawn.of(tuple[str, ...])
_libraries = st.builds(Library, texts, _calls) | st.builds(Library, texts, _calls, texts.filter(bool), texts)
_metrics = _drawn.build(Metric, low=numbers | st.just(-math.inf), high=numbers | st.just(math.inf))
_drawn = Drawn({str: texts, Any: plain_data, Library: _libraries, Metric: _metrics}, most=2)
captures, polls, parsers, reports = map(_drawn.of, (Capture, Poll, DescribedParser, Report))
