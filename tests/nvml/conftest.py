"""Fixtures for the tests with a fake NVML."""

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from kits.fake_nvml.library import FakeNvml
from kits.fake_nvml.reader import Bench, loaded, reading


@pytest.fixture
def fake(tmp_path: Path) -> FakeNvml:
    return FakeNvml(tmp_path / "nvml", "h100")


@pytest.fixture
def nvml(fake: FakeNvml) -> Iterator[ModuleType]:
    with loaded(fake) as pynvml:
        pynvml.nvmlInit()
        yield pynvml


@pytest.fixture
def bench(fake: FakeNvml) -> Iterator[Bench]:
    with reading(fake) as found:
        yield found
