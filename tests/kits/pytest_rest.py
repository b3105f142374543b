"""With --rest=2/8, of the tests that are marked `rest` the second of eight shares runs, beside all others; a test's name says in which it is."""

from __future__ import annotations

import argparse
import re
import zlib

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --rest."""
    parser.addoption(
        "--rest", type=_share, metavar="I/N", help="of the tests marked `rest`, run one share of so many only"
    )


def _share(text: str) -> tuple[int, int]:
    found = re.fullmatch("([1-9][0-9]*)/([1-9][0-9]*)", text)
    if found is None or int(found[1]) > int(found[2]):
        raise argparse.ArgumentTypeError(f"'{text}' is no share; write one such as 2/8")
    return int(found[1]), int(found[2])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is in the other shares."""
    share = config.getoption("--rest")
    if share is None:
        return
    which, of = share
    others = [
        item for item in items if item.get_closest_marker("rest") and zlib.crc32(item.nodeid.encode()) % of + 1 != which
    ]
    if others:
        left_out = frozenset(others)
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in left_out]
