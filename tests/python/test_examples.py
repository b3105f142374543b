"""The examples of docs/python.md run, with stand-ins for the frameworks, and mypy accepts them."""

import re
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kits.captures import ROOT
from kits.daemon import Daemon

EXAMPLES = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "python.md").read_text(), re.DOTALL)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("node"), arguments=("--demo", "1xnvidia")) as running:
        running.until(lambda: running.document()["devices"])
        yield running


@pytest.fixture(autouse=True)
def _on_its_node(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process find the test's daemon as that of its node."""
    monkeypatch.setenv("TELEMETRY_STATE_RUNTIME_DIRECTORY", f"{daemon.folder}/run")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def module(monkeypatch: pytest.MonkeyPatch, name: str, **names: Any) -> None:
    for end in range(1, name.count(".") + 2):
        part = ".".join(name.split(".")[:end])
        monkeypatch.setitem(sys.modules, part, types.ModuleType(part))
    for key, value in names.items():
        setattr(sys.modules[name], key, value)


def example(word: str) -> str:
    (found,) = (text for text in EXAMPLES if word in text)
    return found


def run(text: str, **names: Any) -> dict[str, Any]:
    space = dict(names)
    exec(compile(text, "docs/python.md", "exec"), space)  # it is our own page
    return space


def test_example_of_reading(capsys: pytest.CaptureFixture[str]) -> None:
    run(example("device_telemetry.read()"))
    assert capsys.readouterr().out.startswith("nvidia NVIDIA B200")


def test_example_of_epochs() -> None:
    space = run(example("train_one_epoch"), train_one_epoch=lambda: None, print=lambda *_: None)
    assert space["numbers"]["energy_joules"] >= 0


def test_example_of_tensorboard() -> None:
    scalars: list[tuple[str, float, int]] = []
    writer = types.SimpleNamespace(add_scalar=lambda *scalar: scalars.append(scalar))
    run(example("add_scalar"))["train"](2, lambda: None, writer)
    assert {epoch for _, _, epoch in scalars} == {0, 1}
    assert "device/seconds" in {name for name, _, _ in scalars}


@pytest.mark.parametrize(
    ("name", "base", "word", "steps"),
    [
        (
            "lightning.pytorch.callbacks",
            "Callback",
            "lightning.pytorch",
            ("on_train_start", "on_train_epoch_end", "on_train_end"),
        ),
        ("transformers", "TrainerCallback", "TrainerCallback", ("on_train_begin", "on_log", "on_train_end")),
        ("keras.callbacks", "Callback", "from keras", ("on_train_begin", "on_epoch_end", "on_train_end")),
    ],
)
def test_callbacks_of_frameworks(
    monkeypatch: pytest.MonkeyPatch, name: str, base: str, word: str, steps: tuple[str, str, str]
) -> None:
    module(monkeypatch, name, **{base: type(base, (), {})})
    callback = run(example(word))["DeviceTelemetry"]()
    logs: dict[str, float] = {}
    trainer = types.SimpleNamespace(log_dict=logs.update)
    calls: dict[str, Callable[[str], None]] = {
        "lightning.pytorch.callbacks": lambda step: getattr(callback, step)(None, trainer),
        "transformers": lambda step: getattr(callback, step)(None, None, None, logs=logs),
        "keras.callbacks": lambda step: getattr(callback, step)(*([0] if "epoch" in step else []), logs=logs),
    }
    for step in steps:
        calls[name](step)
    assert logs["device/seconds"] >= 0
    assert "device/0/power_watts/mean" in logs


@pytest.mark.long
def test_mypy_accepts_the_examples(tmp_path: Path) -> None:
    for number, text in enumerate(EXAMPLES):
        (tmp_path / f"example{number}.py").write_text(
            "# mypy: allow-untyped-defs\n" + text.replace("train_one_epoch()", "...")
        )
    command = [sys.executable, "-m", "mypy", "--ignore-missing-imports", "--config-file", "/dev/null", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
