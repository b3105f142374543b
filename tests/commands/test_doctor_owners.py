"""What the doctor says to do about sources that tell of owners: no driver and no tool is behind them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kits.command_line import run_main
from kits.daemon import bare_config
from kits.fake_kubelet import SOCKET, RawServer


def dead(root: Path) -> None:
    with RawServer(root / SOCKET, lambda _connection: None):
        pass


@pytest.mark.parametrize(
    ("prepare", "why", "to_do"),
    [
        (lambda _root: None, "no kubelet has a socket here", "nothing, if the node has none"),
        (dead, "the kubelet is down, or restarts", "docs/owners.md says what this source needs"),
    ],
)
def test_it_says_why_there_is_no_kubelet(tmp_path: Path, prepare: Callable[[Path], None], why: str, to_do: str) -> None:
    prepare(tmp_path)
    config = bare_config(tmp_path, f'[attribution]\nenabled = true\n[sources.kubelet]\npath = "{tmp_path}"\n')
    _, said, _ = run_main("doctor", "--config", config, "--source", "kubelet", "--all")
    words = " ".join(said.split())
    assert why in words
    assert to_do in words
    assert "driver" not in words
