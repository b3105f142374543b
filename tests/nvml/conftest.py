"""Fixtures for the tests with a fake NVML."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kits.fake_nvml.client import Client, Start
from kits.fake_nvml.library import FakeNvml
from kits.fake_nvml.reader import Bench, reading


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts processes that have initialised NVML, and ends them."""
    clients: list[Client] = []

    def starting(fake: FakeNvml) -> Client:
        clients.append(Client(fake))
        clients[-1].do("nvmlInit()")
        return clients[-1]

    yield starting
    for client in clients:
        client.close()


@pytest.fixture
def fake(tmp_path: Path) -> FakeNvml:
    """A node with eight H100."""
    return FakeNvml(tmp_path / "nvml", "h100")


@pytest.fixture
def client(fake: FakeNvml, start: Start) -> Client:
    """A process that has initialised it."""
    return start(fake)


@pytest.fixture
def bench(fake: FakeNvml) -> Iterator[Bench]:
    """A worker that reads it."""
    with reading(fake) as found:
        yield found
