"""Options that all tests share."""

from __future__ import annotations

import os

import hypothesis
import pytest

# Leaves tests out whose tools are missing, names them, and fails the run for it in CI.
pytest_plugins = ("needs_kit",)

# What CI says of a change must not hang on luck: it tries the same examples each time, `make test` new ones.
hypothesis.settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    hypothesis.settings.load_profile("ci")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds --update-golden."""
    parser.addoption(
        "--update-golden",
        action="store_true",
        default=False,
        help="write the golden files anew from what comes out now; read them before you commit them",
    )


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be written rather than compared."""
    return bool(request.config.getoption("--update-golden"))
