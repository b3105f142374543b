"""A place where distributions with plugins are installed for one test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kits import plugin as plugin_kit


@pytest.fixture
def site(tmp_path: Path) -> Iterator[plugin_kit.Site]:
    made = plugin_kit.Site(tmp_path)
    yield made
    for worker in made.workers:
        worker.close()
