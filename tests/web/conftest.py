"""Fixtures of the web tests."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kits.web_server import Pki, make_pki


@pytest.fixture(scope="session")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return make_pki(tmp_path_factory.mktemp("pki"))


@pytest.fixture
def web_file(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "web.yml"
        path.write_text(text)
        return path

    return write
