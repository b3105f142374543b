"""A workbench for each test."""

from pathlib import Path

import pytest

from config.workbench import Workbench


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return Workbench(tmp_path)
