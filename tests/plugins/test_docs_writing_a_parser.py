"""docs/writing-a-parser.md shows parts of the example plugin's real files, and links to the other parts."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
EXAMPLE = ROOT / "tests" / "example_plugin"
TEXT = (ROOT / "docs" / "writing-a-parser.md").read_text()
BLOCK = re.compile(r'^```\w+ title="([^"\n]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
SHOWN = BLOCK.findall(TEXT)


@pytest.mark.parametrize(("name", "part"), SHOWN, ids=[f"{number} {name}" for number, (name, _) in enumerate(SHOWN)])
def test_shown_part_is_in_the_real_file(name: str, part: str) -> None:
    assert part in (EXAMPLE / name).read_text()


def test_parts_of_every_module_are_shown_or_linked() -> None:
    modules = {str(path.relative_to(EXAMPLE)) for path in EXAMPLE.glob("src/*/[a-z]*.py")}
    linked = set(re.findall(r"\(\.\./tests/example_plugin/([^)]+)\)", TEXT))
    assert modules <= linked | {name for name, _ in SHOWN}
    assert [target for target in linked if not (EXAMPLE / target).exists()] == []
