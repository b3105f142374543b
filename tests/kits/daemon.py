"""The real daemon as a separate process."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from kits.waiting import PATIENCE_SECONDS

_ADDRESS = re.compile(r'msg="serving" .*?address=(\S+)')
COMMAND = (sys.executable, "-m", "telemetry_daemon.cli")


@dataclass
class Daemon:
    """`telemetry serve` with its own configuration and state; use it as a context manager."""

    folder: Path
    config: str = ""
    arguments: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    prefix: Sequence[str] = ()  # what starts the command, such as prlimit with its limits
    command: Sequence[str] = COMMAND
    # A fixed port would survive in the configuration of a reload; 0 means another port at each start.
    listen: str = "127.0.0.1:0"
    process: subprocess.Popen[str] | None = None
    lines: list[str] = field(default_factory=list)
    address: str = ""

    @property
    def config_path(self) -> Path:
        return self.folder / "telemetry.toml"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def write_config(self, text: str) -> None:
        """Write a configuration that keeps state in the test's folder and listens on a free port."""
        bare_config(self.folder, text)

    def __enter__(self) -> Daemon:
        self.write_config(self.config)
        serve = ("serve", "--config", str(self.config_path), "--web.listen-address", self.listen)
        self.process = subprocess.Popen(
            [*self.prefix, *self.command, *serve, *self.arguments],
            env=clean_environment(self.environment),
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        threading.Thread(target=self.read_log, daemon=True).start()
        self.until(lambda: self.address or self.process.poll() is not None)
        if not self.address:
            self.__exit__()
            raise AssertionError(f"the daemon did not start: {self.lines}")
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.poll() is None:
            children = psutil.Process(self.pid).children(recursive=True)
            self.process.kill()
            self.process.wait()
            for child in children:  # processes that the daemon could not end, such as a hanging tool
                with contextlib.suppress(psutil.NoSuchProcess):  # it has ended by itself
                    child.kill()
        if self.process is not None and self.process.stderr is not None:
            self.process.stderr.close()

    def read_log(self) -> None:
        assert self.process is not None
        assert self.process.stderr is not None
        try:
            for line in self.process.stderr:
                self.lines.append(line.rstrip("\n"))
                found = _ADDRESS.search(line)
                if found:
                    self.address = found[1].strip('"')
        except ValueError:
            return  # closed by the test's end

    def get(self, path: str = "/metrics", **headers: str) -> tuple[int, str]:
        request = urllib.request.Request(f"http://{self.address}{path}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def page(self) -> str:
        status, body = self.get()
        assert status == 200
        return body

    def document(self) -> Any:
        return json.loads(self.get("/api/v1/snapshot")[1])

    def source(self, name: str) -> Mapping[str, Any]:
        """Return a source of the JSON snapshot; empty before its first poll."""
        return next((item for item in self.document()["sources"] if item["source"] == name), {})

    def until(self, condition: Callable[[], object], patience_seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until the condition is true; fail if it does not become true."""
        end = time.monotonic() + patience_seconds
        while not condition():
            assert time.monotonic() < end, f"did not come about: {self.lines[-20:]}"
            time.sleep(0.1)

    def until_state(self, source: str, state: str) -> None:
        self.until(lambda: self.source(source).get("state") == state)

    def logged(self, text: str) -> int:
        return sum(text in line for line in self.lines)

    def logs(self, text: str, times: int = 1) -> None:
        """Wait until `times` log lines have the text; fail if more have it. Log lines may come late."""
        self.until(lambda: self.logged(text) >= times)
        assert self.logged(text) == times

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def stop(self) -> tuple[int, float]:
        """Ask the daemon to end; return exit status and seconds."""
        start = time.monotonic()
        self.signal(signal.SIGTERM)
        assert self.process is not None
        status = self.process.wait(timeout=PATIENCE_SECONDS)
        return status, time.monotonic() - start


@contextlib.contextmanager
def reload_held_up(daemon: Daemon) -> Iterator[None]:
    """Reload the daemon, and block the process that checks the configuration meanwhile."""
    checks: list[psutil.Process] = []

    def is_held_up() -> bool:
        for child in psutil.Process(daemon.pid).children():
            with contextlib.suppress(psutil.NoSuchProcess):  # it has ended by itself
                if "config.child" in " ".join(child.cmdline()):
                    child.suspend()
                    checks.append(child)
        return bool(checks)

    daemon.signal(signal.SIGHUP)
    daemon.until(is_held_up)
    try:
        yield
    finally:
        for check in checks:
            with contextlib.suppress(psutil.NoSuchProcess):  # the daemon has ended it
                check.resume()


def shared_daemon(config: str = "", **given: Any) -> Any:
    """Return a fixture, to be assigned to a name: one running daemon for all tests of the module."""

    @pytest.fixture(scope="module")
    def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
        with Daemon(tmp_path_factory.mktemp("daemon"), config, **given) as daemon:
            yield daemon

    return running


def bare_config(folder: Path, more: str = "") -> str:
    """Return the path of a configuration with which a command finds no daemon outside this folder."""
    path = folder / "telemetry.toml"
    path.write_text(f'[state]\ndirectory = "{folder}/state"\nruntime_directory = "{folder}/run"\n{more}')
    return str(path)


def clean_environment(more: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the tests, with these settings and no others."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("TELEMETRY_")}
    root = Path(__file__).parents[2]
    path = os.pathsep.join(str(root / name) for name in ("daemon", "exporters", "parsers"))
    return {**ours, "PYTHONPATH": path, **more}


def run(*arguments: str, environment: Mapping[str, str] = {}, stdin: str | None = None, cwd: Path | None = None):
    """Run a `telemetry` command; return exit status, standard output and standard error."""
    done = subprocess.run(
        [*COMMAND, *arguments],
        env=clean_environment(environment),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        cwd=cwd,
    )
    return done.returncode, done.stdout, done.stderr
