"""Damage for fuzzing: texts with pieces spliced, cut, doubled, widened, flipped and repeated."""

import random
import re
from collections.abc import Callable, Sequence

from hypothesis import strategies as st

from telemetry_parsers.checks.mutations import NASTY_DATA, NASTY_WORDS
from telemetry_parsers.model import Plain

_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_BLANKS = re.compile(r" {2,}")
_HUGE = ("9" * 30, "1e308", "-1", "0.0", "1e999", "4294967295", "18446744073709551615", "65535", "00012", "1,5", "NaN")
_ENCODINGS = ("latin-1", "gbk", "utf-16", "utf-8-sig", "cp437", "shift_jis")
_MAX_CHARACTERS = 200_000

# A damage gets the text, random numbers that are the same for each run of an example, and the other texts.
Damage = Callable[[str, random.Random, Sequence[str]], str]


def _two(text: str, dice: random.Random) -> tuple[int, int]:
    start, end = sorted((dice.randint(0, len(text)), dice.randint(0, len(text))))
    return start, end


def splice(text: str, dice: random.Random, others: Sequence[str]) -> str:
    other = dice.choice(others)
    return text[: dice.randint(0, len(text))] + other[dice.randint(0, len(other)) :]


def cut(text: str, dice: random.Random, _: Sequence[str]) -> str:
    start, end = _two(text, dice)
    return text[:start] + text[end:]


def stop(text: str, dice: random.Random, _: Sequence[str]) -> str:
    return text[: dice.randint(0, len(text))]


def double_lines(text: str, dice: random.Random, _: Sequence[str]) -> str:
    lines = text.split("\n")
    start = dice.randrange(len(lines))
    piece = lines[start : start + dice.randint(1, 4)]
    line_number = dice.randint(0, len(lines))
    return "\n".join([*lines[:line_number], *piece, *lines[line_number:]])


def mix_lines(text: str, dice: random.Random, _: Sequence[str]) -> str:
    lines = text.split("\n")
    start = dice.randrange(len(lines))
    piece = lines[start : start + 6]
    dice.shuffle(piece)
    return "\n".join([*lines[:start], *piece, *lines[start + 6 :]])


def widen(text: str, dice: random.Random, _: Sequence[str]) -> str:
    """Change the width of columns."""
    width = dice.randint(1, 12)
    return _BLANKS.sub(lambda found: " " * max(1, len(found[0]) + dice.randint(-width, width)), text)


def stretch(text: str, dice: random.Random, _: Sequence[str]) -> str:
    """Insert many blanks, dashes or digits; half of the time end the text after the next word."""
    start = dice.randint(0, len(text))
    pushed = text[:start] + dice.choice(" \t-=0x") * dice.choice((100, 400, 1000, 9000))
    word, end, rest = text[start:].lstrip().partition(dice.choice((" ", "\n")))
    return pushed + word + dice.choice(("", end + rest))


def flip(text: str, dice: random.Random, _: Sequence[str]) -> str:
    data = bytearray(text.encode("utf-8", "surrogatepass"))
    for _ in range(dice.randint(1, 6)):
        if data:
            data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    return data.decode("utf-8", "replace")


def encode(text: str, dice: random.Random, _: Sequence[str]) -> str:
    """Insert bytes of another encoding, read as UTF-8 as the readers do."""
    return text.encode(dice.choice(_ENCODINGS), "replace").decode("utf-8", "replace")


def renumber(text: str, dice: random.Random, _: Sequence[str]) -> str:
    """Replace some numbers by others, including values that no card has."""
    share = dice.choice((0.02, 0.2, 1.0))

    def other(found: re.Match[str]) -> str:
        return dice.choice((*_HUGE, str(dice.randint(0, 10**6)))) if dice.random() < share else found[0]

    return _NUMBER.sub(other, text)


def insert(text: str, dice: random.Random, _: Sequence[str]) -> str:
    """Insert a word that causes trouble."""
    offset = dice.randint(0, len(text))
    return text[:offset] + dice.choice(NASTY_WORDS) + text[offset:]


def deepen(text: str, dice: random.Random, _: Sequence[str]) -> str:
    """Insert many brackets, as JSON or within JSON."""
    depth = dice.choice((10, 900, 20_000))
    opened, closed = dice.choice((("[", "]"), ('{"a":', "}"), ('[{"card0":', "}]")))
    nested = opened * depth + dice.choice(("1", "", '"x"')) + closed * dice.choice((depth, 0, depth - 1))
    start, end = _two(text, dice)
    return dice.choice((nested, text[:start] + nested + text[end:]))


def repeat(text: str, dice: random.Random, _: Sequence[str]) -> str:
    return text * dice.randint(2, 12)


def swap(text: str, dice: random.Random, _: Sequence[str]) -> str:
    lines = text.split("\n")
    line_number = dice.randrange(len(lines))
    words = re.split(r"(\s+|[|,:])", lines[line_number])
    first, second = dice.randrange(len(words)), dice.randrange(len(words))
    words[first], words[second] = words[second], words[first]
    return "\n".join([*lines[:line_number], "".join(words), *lines[line_number + 1 :]])


DAMAGES: tuple[Damage, ...] = (
    splice, cut, stop, double_lines, mix_lines, widen, stretch, flip, encode, renumber, insert, deepen, repeat, swap,
)  # fmt: skip


def damaged(texts: Sequence[str]) -> st.SearchStrategy[str]:
    steps = st.lists(st.tuples(st.sampled_from(DAMAGES), st.integers(0, 1 << 32)), max_size=4)
    return st.builds(lambda text, done: _apply(text, done, texts), st.sampled_from(texts), steps)


def _apply(text: str, steps: Sequence[tuple[Damage, int]], texts: Sequence[str]) -> str:
    for damage, seed in steps:
        text = damage(text, random.Random(seed), texts)[:_MAX_CHARACTERS]
    return text


def damaged_bytes(texts: Sequence[str]) -> st.SearchStrategy[bytes]:
    """Draw damaged texts as bytes, or random bytes."""
    encoded = damaged(texts).map(lambda text: text.encode("utf-8", "surrogatepass"))
    return st.one_of(encoded, st.binary(max_size=200), st.tuples(encoded, st.binary(max_size=8)).map(b"".join))


_PIECES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), st.sampled_from(NASTY_DATA)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


@st.composite
def damaged_plain(draw: st.DrawFn, data: Plain) -> Plain:
    """Draw the data with a part changed, removed or added."""
    if not isinstance(data, dict) or draw(st.integers(0, 7)) == 0:
        return draw(_PIECES)
    key = draw(st.one_of(st.sampled_from(sorted(data)), st.text(max_size=12))) if data else draw(st.text(max_size=12))
    kept = {name: value for name, value in data.items() if name != key}
    return kept if draw(st.booleans()) else {**kept, key: draw(damaged_plain(data.get(key)))}
