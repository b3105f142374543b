"""Decides which words in names, paths and the output of tools are masked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from telemetry_parsers.metrics import CATALOGUE
from telemetry_parsers.sentinels import ALL_BITS
from telemetry_parsers.text.tool_marks import TOOL_MARKS
from telemetry_parsers.vendors import VENDORS

# Every vendor's output contains these words, so they identify no host.
_METRIC_WORDS = {
    part for metric in CATALOGUE for text in (metric.name, metric.label, *metric.words) for part in text.split("_")
}
_VENDOR_WORDS = {
    part
    for name in (*TOOL_MARKS, *(name for vendor in VENDORS for name in (vendor.word, vendor.demo.source)))
    for part in re.split("[-_ ]", name)
}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _words_in_file(name: str) -> frozenset[str]:
    return _words(Path(__file__).with_name(name).read_text("utf-8"))


# Words in paths, programs, environments and tools that identify no person.
HARMLESS_WORDS = _words_in_file("harmless_words.txt").union(_METRIC_WORDS, _VENDOR_WORDS)
# A host with one of these names is not masked, because the stand-in could replace a word of a tool's output.
TOOL_WORDS = HARMLESS_WORDS.union(
    _words_in_file("tool_words.txt"), ("amdhsa", "base64", "bif", "hdp", "front", "lm75a", "lm75b", "lm75c", "wafl")
)
# Before a number, these words form a host name, such as `node17`.
HOST_WORDS = _words(
    """node nodes host server srv svr worker wrk rack dgx hgx compute comp login head master slave blade pod cn vm kube k8s
    desktop laptop workstation hpc slurm job ip ec2 ctrl storage nas bastion"""
)
# A host name in DNS or a cluster may end with these words.
TOP_DOMAINS = _words(
    """com net org io ai cn de uk fr jp kr ru in eu us ca au ch nl se it es edu gov mil info biz dev app cloud tech site
    local localdomain lan internal intern corp home private intra cluster svc hpc test example invalid arpa"""
)
FILE_SUFFIXES = _words(
    """so ko py pyc sh bin json jsonl yaml yml toml conf cfg ini txt csv log md jar js c h cc cpp cu hip go rs exe dll
    service slice scope socket mount timer xml html gz xz zip tar deb rpm run out err pid sock db sqlite"""
)
Span = tuple[int, int]

_NAME_WORD = re.compile(r"[^\W_]+")
# A number, optionally with its unit.
_NUMBER = re.compile(r"(?:[vVxX]?[0-9]+(?:\.[0-9]+)*\D{0,4}|0[xX][0-9a-fA-F]+|gfx[0-9a-f]+)\Z")
# The parts of capitalized words, such as `Gpu` and `Clock` in `GpuClock`.
_CAPITALIZED = re.compile(r"[A-Z]?[a-z]+[0-9]*|[A-Z]+[0-9]*(?![a-z])|[^\W_]+")
_TOKEN = re.compile(r"[^\W_]+(?:[-.][^\W_]+)*")
_DOMAIN_LABEL = re.compile(r"[^.]+")
_PARTS = re.compile(r"[0-9]+|[^\W\d_]+")
_HOST = re.compile(
    # A name may contain a rack and a unit, as in `gpu-a77-u31`.
    rf"(?:[a-z0-9]+[-.])*(?:(?:{'|'.join(sorted(HOST_WORDS))})-?[0-9]+|[a-z][0-9]{{1,3}}-u[0-9]{{1,2}})(?:[-.][a-z0-9]+)*\Z",
    re.IGNORECASE,
)
_HEX_OF_32_BITS = re.compile(r"[0-9a-fA-F]{8}\Z")
_QUANTITY = re.compile(r"[0-9]+[A-Za-z%]{1,3}\Z")
_SENTINELS = frozenset(map(str, ALL_BITS))
_MAX_INDEX_LENGTH = 4
_MIN_KNOWN_NAME_LENGTH = 3
_INDEX_SUFFIXES = frozenset(("", *map(str, range(64))))
_MIN_SERIAL_LENGTH = 8
_MAX_PARTS = 3
_MAX_NUMBER_DIGITS = 9
_MAX_MODEL_DIGITS = 5
_MAX_MODEL_LENGTH = 9
_MIN_PART_LENGTH = 5


def name_spans(text: str) -> Iterator[Span]:
    """Yield the spans of all possible names in a path or command line."""
    for match in _NAME_WORD.finditer(text):
        if not is_harmless(match[0]):
            yield match.span()


def is_harmless(word: str) -> bool:
    """Return whether a word cannot identify a person or host."""
    if word.isdigit():
        return len(word) <= _MAX_INDEX_LENGTH
    if len(word) == 1 or word.lower() in HARMLESS_WORDS or not word.lower().strip("x"):
        return word.isascii()
    stem = word.lower().rstrip("0123456789")
    return stem in HARMLESS_WORDS and stem not in HOST_WORDS and len(word) - len(stem) <= _MAX_INDEX_LENGTH


def may_be_name(word: str) -> bool:
    """Return whether a word may be the name of a host or person. Return False for words such as `gpu` and `card0`."""
    if len(word) < _MIN_KNOWN_NAME_LENGTH or _NUMBER.match(word):
        return False
    parts = _NAME_WORD.findall(word)
    tool_parts = [part for part in parts if _is_tool_part(part)]
    if tool_parts and "_" in word:  # a key of a tool, such as `temperature_vrsoc`
        return False
    return not tool_parts or any(len(part) >= _MIN_KNOWN_NAME_LENGTH for part in parts if part not in tool_parts)


def _is_tool_part(part: str) -> bool:
    if _NUMBER.match(part):
        return True
    words = [word.lower() for word in _CAPITALIZED.findall(part) if len(word) > 1]
    return all(_is_tool_word(word) for word in (words or [part])) or _is_tool_word(part.lower())


def _is_tool_word(word: str) -> bool:
    """Return whether tools print this word, possibly followed by an index, as in `gpu0`."""
    stem = word.rstrip("0123456789")
    return word in TOOL_WORDS or (stem in TOOL_WORDS - HOST_WORDS and word[len(stem) :] in _INDEX_SUFFIXES)


def secret_spans(text: str, harmless: frozenset[str]) -> Iterator[Span]:
    """Yield the spans of words that look like identities and are not in `harmless`."""
    for match in _TOKEN.finditer(text):
        token = match[0]
        if len(token) < 4 or token.isalpha():  # words of up to three characters are indices or units
            continue
        if token in harmless:
            continue
        for start, end in _identity_spans(token):
            yield match.start() + start, match.start() + end


def _identity_spans(token: str) -> Iterator[Span]:
    if _HOST.match(token) or _is_domain(token):
        labels = (match for match in _DOMAIN_LABEL.finditer(token) if match[0].lower() not in TOP_DOMAINS)
        yield from (match.span() for match in labels if not _is_harmless_label(match[0], token))
    elif "-" in token and _is_generated_name(token):
        yield 0, len(token)
    else:
        yield from (match.span() for match in _NAME_WORD.finditer(token) if looks_like_identity(match[0]))


def _is_harmless_label(label: str, token: str) -> bool:
    if token.rpartition(".")[2].lower() not in FILE_SUFFIXES:
        return is_harmless(label)
    return all(is_harmless(word) and word.lower() not in HOST_WORDS for word in _NAME_WORD.findall(label))


def _is_generated_name(token: str) -> bool:
    """Return whether a name looks generated, such as `train-llm-7d9f8`."""
    words = re.findall(r"[^\W\d_]{3,}", token)
    return any(character.isdigit() for character in token) and any(word.lower() not in HARMLESS_WORDS for word in words)


def _is_domain(token: str) -> bool:
    labels = token.lower().split(".")
    if len(labels) < 2 or not labels[-1].isalpha() or all(is_harmless(label) for label in labels):
        return False
    return labels[-1] in TOP_DOMAINS or (labels[-1] in FILE_SUFFIXES and not labels[0].startswith("lib"))


def looks_like_identity(word: str) -> bool:
    """Return whether a word looks like a serial number."""
    if word.isdigit():
        return len(word) > _MAX_NUMBER_DIGITS and word not in _SENTINELS and len(set(word)) > 1
    parts = _PARTS.findall(word)
    if len(parts) == 1 or _HEX_OF_32_BITS.match(word) or _QUANTITY.match(word):
        return False
    longest_run = max((len(part) for part in parts if part.isdigit()), default=0)
    if len(word) >= _MIN_SERIAL_LENGTH and longest_run > _MAX_MODEL_DIGITS:
        return True
    if len(parts) > _MAX_PARTS:
        return len(word) >= _MIN_SERIAL_LENGTH or (len(parts) > _MAX_PARTS + 1 and len(word) >= _MIN_SERIAL_LENGTH - 1)
    return len(parts) == _MAX_PARTS and len(word) > _MAX_MODEL_LENGTH and max(map(len, parts)) < _MIN_PART_LENGTH
