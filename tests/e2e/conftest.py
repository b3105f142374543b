"""Fixture: the folder of fake tools of a test."""

from pathlib import Path

import pytest

from kits.fake_tools import ToolFolder


@pytest.fixture
def tools(tmp_path: Path) -> ToolFolder:
    return ToolFolder(tmp_path / "tools")
