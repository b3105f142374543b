"""Damaged forms of a capture, likely and unlikely ones. The same capture always gives the same forms."""

from __future__ import annotations

from collections.abc import Iterator

from telemetry_parsers.dataclass import dataclass, replace
from telemetry_parsers.model import Capture, Output, Plain

_MULTIPLIER = 6364136223846793005
_INCREMENT = 1442695040888963407
_MASK = 2**64 - 1
# Replacements for a number, a cell or a value.
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


class _Dice:
    """Reproducible random numbers: parsers may not import `random`, and a failure must be repeatable."""

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def below(self, limit: int) -> int:
        """Return a whole number from 0 up to, but excluding, `limit`."""
        self._state = (self._state * _MULTIPLIER + _INCREMENT) & _MASK
        return (self._state >> 33) % max(limit, 1)

    def shuffled(self, items: list[str]) -> list[str]:
        """Return the items in another order."""
        mixed = list(items)
        for position in range(len(mixed) - 1, 0, -1):
            other = self.below(position + 1)
            mixed[position], mixed[other] = mixed[other], mixed[position]
        return mixed


def mutations(capture: Capture, rounds: int = 24) -> Iterator[Mutation]:
    """Yield the capture in damaged forms: each text cut, mixed, flipped, doubled; each piece of data replaced."""
    yield Mutation("no outputs", replace(capture, outputs=()))
    for position, output in enumerate(capture.outputs):
        for name, damaged in _outputs(output, rounds):
            outputs = (*capture.outputs[:position], damaged, *capture.outputs[position + 1 :])
            yield Mutation(f"output {position}: {name}", replace(capture, outputs=outputs))


def cuts(text: str, most: int) -> Iterator[int]:
    """Yield about `most` evenly spread positions at which to cut a text."""
    step = max(1, len(text) // most)
    return iter(range(0, len(text), step))


def _outputs(output: Output, rounds: int) -> Iterator[tuple[str, Output]]:
    yield "empty", Output()
    for status in (0, 1, 127, -9):
        yield f"status {status}", replace(output, status=status)
        yield f"empty with status {status}", Output(name=output.name, status=status)
    yield "all on stderr", replace(output, text="", stderr=output.text + output.stderr)
    yield "mixed", replace(output, text=output.stderr + output.text, stderr="")
    if output.text:
        for name, text in _texts(output.text, rounds):
            yield name, replace(output, text=text)
    if output.data is not None:
        for name, data in _damaged(output.data, "data"):
            yield name, replace(output, data=data)


def _texts(text: str, rounds: int) -> Iterator[tuple[str, str]]:
    whole = text.split("\n")
    yield "binary", "\x00\xff\xfe\x7fELF\x01" * 40
    yield "doubled", text + text
    yield "doubled without an end", text.rstrip("\n") + text
    yield "carriage returns", text.replace("\n", "\r\n")
    yield "blanks collapsed", "\n".join(" ".join(line.split()) for line in whole)
    yield "blank lines", "\n\n".join(whole)
    yield "reversed", "\n".join(reversed(whole))
    yield "one line", " ".join(whole)
    for cut in cuts(text, rounds * 4):
        yield f"cut at {cut}", text[:cut]
        yield f"from {cut}", text[cut:]
    for turn in range(rounds):
        dice = _Dice(turn * 7919 + len(text))
        for damage in (_shuffle, _drop, _repeat, _flip, _nasty, _stretch):
            yield f"{damage.__name__.strip('_')} {turn}", damage(text, dice)


def _shuffle(text: str, dice: _Dice) -> str:
    return "\n".join(dice.shuffled(text.split("\n")))


def _drop(text: str, dice: _Dice) -> str:
    kept = text.split("\n")
    del kept[dice.below(len(kept))]
    return "\n".join(kept)


def _repeat(text: str, dice: _Dice) -> str:
    kept = text.split("\n")
    position = dice.below(len(kept))
    return "\n".join([*kept[:position], kept[position], *kept[position:]])


def _flip(text: str, dice: _Dice) -> str:
    signs = list(text)
    for _ in range(1 + dice.below(8)):
        signs[dice.below(len(signs))] = chr(1 + dice.below(255))
    return "".join(signs)


def _nasty(text: str, dice: _Dice) -> str:
    """Return the text with one word replaced."""
    words = text.split(" ")
    words[dice.below(len(words))] = NASTY_WORDS[dice.below(len(NASTY_WORDS))]
    return " ".join(words)


def _stretch(text: str, dice: _Dice) -> str:
    """Return the text with a word pushed far to the right, beyond what parsers read. Half of the time, the text ends there."""
    words = text.split(" ")
    at = dice.below(len(words))
    pushed = [*words[:at], " " * (60 << dice.below(9)) + words[at]]
    return " ".join(pushed) if dice.below(2) else " ".join([*pushed, *words[at + 1 :]])


def _damaged(data: Plain, path: str) -> Iterator[tuple[str, Plain]]:
    """Yield the data with one piece replaced or removed, for every piece."""
    for nasty in NASTY_DATA:
        yield f"{path} = {str(nasty)[:20]}", nasty
    if isinstance(data, dict):
        for key, value in data.items():
            yield f"{path} without {key}", {name: kept for name, kept in data.items() if name != key}
            for name, piece in _damaged(value, f"{path}.{key}"):
                yield name, {**data, key: piece}
    elif isinstance(data, list):
        for position, value in enumerate(data):
            yield f"{path} without [{position}]", [*data[:position], *data[position + 1 :]]
            for name, piece in _damaged(value, f"{path}[{position}]"):
                yield name, [*data[:position], piece, *data[position + 1 :]]
