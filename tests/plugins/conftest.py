"""A folder in which a test installs distributions with plugins."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from plugins import distributions


@pytest.fixture
def site(tmp_path: Path) -> Iterator[distributions.Site]:
    made = distributions.Site(tmp_path)
    yield made
    for worker in made.workers:
        worker.close()
