"""docs/security.md lists the limits that the parsers apply."""

import re
from pathlib import Path

from telemetry_parsers import bounds

PAGE = Path(__file__).parents[2] / "docs" / "security.md"


def test_the_page_lists_every_bound() -> None:
    table = PAGE.read_text("utf-8").partition("| limited number | at most |\n")[2].partition("\n\n")[0]
    documented = [int(number.replace(",", "")) for number in re.findall(r"\| ([0-9,]+) \|$", table, re.MULTILINE)]
    applied = [value for name, value in vars(bounds).items() if name.isupper()]
    assert sorted(documented) == sorted(applied)
