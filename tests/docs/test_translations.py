"""README.zh-CN.md has the same sections, commands, tables and links as README.md, in the same order."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
ENGLISH = (ROOT / "README.md").read_text()
CHINESE = (ROOT / "README.zh-CN.md").read_text()


def prose(text: str) -> str:
    return re.sub(r"^ *```.*?^ *```$", "", text, flags=re.DOTALL | re.MULTILINE)


def headings(text: str) -> list[int]:
    return [len(marks) for marks in re.findall(r"^(#+) ", prose(text), re.MULTILINE)]


def blocks(text: str) -> list[str]:
    return re.findall(r"^ *```.*?^ *```$", text, re.DOTALL | re.MULTILINE)


def commands(text: str) -> list[str]:
    return sorted(re.findall(r"`([^`\n]+)`", prose(text)))


def links(text: str) -> list[str]:
    return [link for link in re.findall(r"\]\(([^)]+)\)|<(http[^>]+)>", prose(text)) if "README" not in link[0]]


def tables(text: str) -> list[int]:
    return [len(re.findall(r"(?<!\\)\|", line)) for line in prose(text).splitlines() if line.startswith("|")]


def items(text: str) -> list[str]:
    return re.findall(r"^ *(?:[0-9]+\.|-) ", prose(text), re.MULTILINE)


@pytest.mark.parametrize("part", [headings, blocks, commands, links, tables, items])
def test_translation_has_the_same_parts_as_the_original(part):
    assert part(ENGLISH)
    assert part(CHINESE) == part(ENGLISH)


def test_translation_has_no_english_paragraph():
    paragraphs = [text for text in prose(CHINESE).split("\n\n") if len(text) > 40 and not text.startswith("#")]
    assert [text for text in paragraphs if not re.search(r"[\u4e00-\u9fff]", text)] == []


def test_readmes_link_to_each_other():
    assert "(README.zh-CN.md)" in ENGLISH
    assert "(README.md)" in CHINESE
