"""A process that has loaded pynvml with a fake NVML, for tests to ask: what it says comes back as plain data."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from kits.fake_nvml.library import FakeNvml

# What a reading becomes: structures the list of their members without their version, strings and numbers themselves.
_CHILD = """
import ctypes, json, os, sys, threading, time
import pynvml
from pynvml import *

def plain(value):
    if isinstance(value, (ctypes.Structure, ctypes.Union)):
        return [plain(getattr(value, name)) for name, *_ in value._fields_ if name != "version"]
    if isinstance(value, (list, tuple, ctypes.Array)):
        return [plain(each) for each in value]
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return vars(value) if type(value).__name__ == "nvmlFriendlyObject" else value

def gpu(index=0):
    return nvmlDeviceGetHandleByIndex(index)

def mig(index, parent=0):
    return nvmlDeviceGetMigDeviceHandleByIndex(gpu(parent), index)

def descriptors():
    return len(os.listdir("/proc/self/fd"))

for line in sys.stdin:
    source, kind = json.loads(line)
    try:
        answer = {"value": plain(eval(source))} if kind == "ask" else {"value": exec(source)}
    except NVMLError as error:
        answer = {"refusal": error.value}
    except Exception as error:
        answer = {"error": type(error).__name__ + ": " + str(error)}
    print(json.dumps(answer, default=repr), flush=True)
"""


class Refusal(Exception):  # noqa: N818  # an answer of the library, not an error of the test
    """An NVML error; `code` is its number."""

    def __init__(self, code: int) -> None:
        super().__init__(f"NVML error {code}")
        self.code = code


class Client:
    """A process that has pynvml and the fake; nothing is initialised before the test does it."""

    def __init__(self, fake: FakeNvml) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CHILD],
            env=fake.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, expression: str) -> Any:
        """The value of an expression over pynvml, `gpu(index)` and `mig(index)`; raises Refusal for an NVML error."""
        self.begin(expression)
        return self.finish()

    def do(self, statements: str) -> None:
        """Run statements; names that they set stay."""
        self.begin(statements, "do")
        self.finish()

    def refusal(self, expression: str) -> int:
        """The number of the error that an expression gets; -1 if it gets none."""
        try:
            self.ask(expression)
        except Refusal as refusal:
            return refusal.code
        return -1

    def begin(self, source: str, kind: str = "ask") -> None:
        """Ask without waiting for the answer."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps([source, kind]) + "\n")
        self._process.stdin.flush()

    def finish(self) -> Any:
        """The answer to what was asked last."""
        assert self._process.stdout
        answer = json.loads(self._process.stdout.readline())
        if "refusal" in answer:
            raise Refusal(answer["refusal"])
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["value"]

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *how: object) -> None:
        self.close()


# Starts a process that has initialised NVML; it is ended after the test.
Start = Callable[[FakeNvml], Client]
