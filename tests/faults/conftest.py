"""A node that is well, and a disk that is soon full, for every fault test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kits import faults as faults_kit
from kits.faults import SmallDisk


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with faults_kit.small_disk(tmp_path / "disk") as made:
        yield made


@pytest.fixture
def plugin(tmp_path: Path) -> faults_kit.SwitchedPlugin:
    made = faults_kit.SwitchedPlugin(tmp_path)
    made.write()
    made.says("80")
    return made
