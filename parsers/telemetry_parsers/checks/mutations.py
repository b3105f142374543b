"""Damages captures in many ways, which are the same in every run."""

from __future__ import annotations

from collections.abc import Iterator

from telemetry_parsers.dataclass import dataclass, replace
from telemetry_parsers.model import Capture, Output, Plain

_MULTIPLIER = 6364136223846793005
_INCREMENT = 1442695040888963407
_MASK = 2**64 - 1
# Replacements for randomly chosen words and for values of a capture.
NASTY_WORDS = (
    "", "N/A", "-1", "nan", "inf", "1e400", "18446744073709551615", "9" * 400, "0x10", "１２", "٣", "1,024", "1.2.3",
    "-0", "ERROR", "|", "\x00", "\x1b[31m", "{", "[" * 200, "\ud800", "%",
)  # fmt: skip
NASTY_DATA: tuple[Plain, ...] = (
    None, True, "12", "", [], {}, -1, 0, 10**400, float("nan"), float("inf"), -float("inf"), 2**64 - 1, [[[[1]]]],
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mutation:
    """A damaged capture and a description of the damage."""

    name: str
    capture: Capture


class _Random:
    """A random number generator that yields the same sequence in every run and Python version."""

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def integer(self, limit: int) -> int:
        """Return a random integer from 0 to `limit` - 1."""
        self._state = (self._state * _MULTIPLIER + _INCREMENT) & _MASK
        return (self._state >> 33) % max(limit, 1)

    def shuffled(self, items: list[str]) -> list[str]:
        result = list(items)
        for position in range(len(result) - 1, 0, -1):
            other = self.integer(position + 1)
            result[position], result[other] = result[other], result[position]
        return result


def mutations(capture: Capture, rounds: int = 24) -> Iterator[Mutation]:
    """Yield damaged forms of the capture, such as truncated texts."""
    yield Mutation("no outputs", replace(capture, outputs=()))
    for position, output in enumerate(capture.outputs):
        for name, damaged in _damage_outputs(output, rounds):
            outputs = (*capture.outputs[:position], damaged, *capture.outputs[position + 1 :])
            yield Mutation(f"output {position}: {name}", replace(capture, outputs=outputs))


def cut_positions(text: str, max_count: int) -> Iterator[int]:
    """Yield about `max_count` evenly spaced positions in a string."""
    step = max(1, len(text) // max_count)
    return iter(range(0, len(text), step))


def _damage_outputs(output: Output, rounds: int) -> Iterator[tuple[str, Output]]:
    yield "empty", Output()
    for status in (0, 1, 127, -9):
        yield f"status {status}", replace(output, status=status)
        yield f"emptied, exit status {status}", Output(name=output.name, status=status)
    yield "all on stderr", replace(output, text="", stderr=output.text + output.stderr)
    yield "mixed", replace(output, text=output.stderr + output.text, stderr="")
    if output.text:
        for name, text in _damage_texts(output.text, rounds):
            yield name, replace(output, text=text)
    if output.data is not None:
        for name, data in _damage_data(output.data, "data"):
            yield name, replace(output, data=data)


def _damage_texts(text: str, rounds: int) -> Iterator[tuple[str, str]]:
    lines = text.split("\n")
    yield "binary", "\x00\xff\xfe\x7fELF\x01" * 40
    yield "doubled", text + text
    yield "repeated without a line break", text.rstrip("\n") + text
    yield "carriage returns", text.replace("\n", "\r\n")
    yield "blanks collapsed", "\n".join(" ".join(line.split()) for line in lines)
    yield "blank lines", "\n\n".join(lines)
    yield "reversed", "\n".join(reversed(lines))
    yield "one line", " ".join(lines)
    for cut in cut_positions(text, rounds * 4):
        yield f"cut at {cut}", text[:cut]
        yield f"from {cut}", text[cut:]
    for round_number in range(rounds):
        random = _Random(round_number * 7919 + len(text))
        for damage in (_shuffle, _drop, _repeat, _flip, _nasty, _stretch):
            yield f"{damage.__name__.strip('_')} {round_number}", damage(text, random)


def _shuffle(text: str, random: _Random) -> str:
    return "\n".join(random.shuffled(text.split("\n")))


def _drop(text: str, random: _Random) -> str:
    lines = text.split("\n")
    del lines[random.integer(len(lines))]
    return "\n".join(lines)


def _repeat(text: str, random: _Random) -> str:
    lines = text.split("\n")
    position = random.integer(len(lines))
    return "\n".join([*lines[:position], lines[position], *lines[position:]])


def _flip(text: str, random: _Random) -> str:
    characters = list(text)
    for _ in range(1 + random.integer(8)):
        characters[random.integer(len(characters))] = chr(1 + random.integer(255))
    return "".join(characters)


def _nasty(text: str, random: _Random) -> str:
    words = text.split(" ")
    words[random.integer(len(words))] = NASTY_WORDS[random.integer(len(NASTY_WORDS))]
    return " ".join(words)


def _stretch(text: str, random: _Random) -> str:
    """Return the text with many blanks before a random word."""
    words = text.split(" ")
    position = random.integer(len(words))
    shifted = [*words[:position], " " * (60 << random.integer(9)) + words[position]]
    return " ".join(shifted) if random.integer(2) else " ".join([*shifted, *words[position + 1 :]])


def _damage_data(data: Plain, path: str) -> Iterator[tuple[str, Plain]]:
    for nasty in NASTY_DATA:
        yield f"{path} = {str(nasty)[:20]}", nasty
    if isinstance(data, dict):
        for key, value in data.items():
            yield f"{path} without {key}", {name: item for name, item in data.items() if name != key}
            for name, damaged in _damage_data(value, f"{path}.{key}"):
                yield name, {**data, key: damaged}
    elif isinstance(data, list):
        for position, value in enumerate(data):
            yield f"{path} without [{position}]", [*data[:position], *data[position + 1 :]]
            for name, damaged in _damage_data(value, f"{path}[{position}]"):
                yield name, [*data[:position], damaged, *data[position + 1 :]]
