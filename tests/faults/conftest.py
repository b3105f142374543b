"""Fixtures of the fault tests: a small disk, and a plugin that works until it is switched."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from faults.small_disk import SmallDisk, small_disk
from faults.switched_plugin import SwitchedPlugin


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk") as made:
        yield made


@pytest.fixture
def plugin(tmp_path: Path) -> SwitchedPlugin:
    made = SwitchedPlugin(tmp_path)
    made.write()
    made.switch_to("80")
    return made
