"""Fake tools and their readers, closed after each test."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kits.command_reader import QUICK
from kits.fake_tools import ToolFolder
from kits.processes import MARK
from telemetry_daemon.readers.tool_reader import CommandReader

MakeReader = Callable[..., CommandReader]


@pytest.fixture
def tools(tmp_path: Path) -> ToolFolder:
    return ToolFolder(tmp_path / "bin")


@pytest.fixture
def mark() -> str:
    return uuid.uuid4().hex


@pytest.fixture
def make_reader(tools: ToolFolder, tmp_path: Path, mark: str) -> Iterator[MakeReader]:
    made: list[CommandReader] = []

    def make(**settings: object) -> CommandReader:
        given = {"environment": {**tools.environment, MARK: mark}, "limits": QUICK, **settings}
        reader = CommandReader("fake", tmp_path / "locks", **given)  # type: ignore[arg-type]  # keywords as given
        made.append(reader)
        return reader

    yield make
    for reader in made:
        reader.close()


@pytest.fixture
def reader(make_reader: MakeReader) -> CommandReader:
    return make_reader()
