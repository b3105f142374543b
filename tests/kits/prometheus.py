"""A throw-away Prometheus and Alertmanager."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

from kits.ports import free_address
from kits.waiting import PATIENCE_SECONDS, until


def tool(name: str) -> str:
    path = shutil.which(name)
    assert path is not None, f"{name} is not installed: apt-get install prometheus prometheus-alertmanager"
    return path


def impatient(rules: Sequence[Path], folder: Path) -> list[Path]:
    """Return copies of rule files in which each rule is evaluated often and fires at once."""
    files = []
    for file in rules:
        document = yaml.safe_load(file.read_text())
        for group in document["groups"]:
            group.pop("interval", None)
            for rule in group["rules"]:
                rule.pop("for", None)
        files.append(folder / file.name)
        files[-1].write_text(yaml.safe_dump(document))
    return files


class _Server:
    def __init__(self, command: Sequence[str], address: str) -> None:
        self.address = address
        self._command = list(command)

    def __enter__(self) -> Any:
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            until(self._is_ready, f"an answer of {self._command[0]}")
        except BaseException:  # the program must not survive any error
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(timeout=PATIENCE_SECONDS)

    def _is_ready(self) -> bool:
        assert self._process.poll() is None, f"{self._command} has ended with status {self._process.returncode}"
        try:
            with urllib.request.urlopen(f"http://{self.address}/-/ready", timeout=PATIENCE_SECONDS):
                return True
        except OSError:  # not listening yet, or its storage is not ready
            return False

    def get(self, path: str) -> Any:
        """Return the JSON answer; None while the server gives none."""
        try:
            with urllib.request.urlopen(f"http://{self.address}{path}", timeout=PATIENCE_SECONDS) as response:
                return json.load(response)
        except OSError:  # it does not answer yet
            return None


class ConfiguredPrometheus(_Server):
    """A Prometheus with a given configuration file; an agent if the storage is an agent's."""

    def __init__(self, config: Path, flags: Sequence[str] = ()) -> None:
        address = free_address()
        super().__init__(
            [
                tool("prometheus"),
                f"--config.file={config}",
                f"--storage.tsdb.path={config.parent}/tsdb",
                f"--web.listen-address={address}",
                "--log.level=error",
                *flags,
            ],
            address,
        )

    def ask(self, path: str) -> Any:
        """Return the data of an API answer; None while the server gives none."""
        answer = self.get(f"/api/v1/{path}")
        return None if answer is None else answer["data"]

    def wait(self, path: str, key: str) -> Any:
        """Return the data once it is not empty."""
        return until(lambda: (self.ask(path) or {}).get(key), path)

    def query(self, expression: str) -> tuple[str, list[Any]]:
        """Return the error of a query, if any, and its result."""
        form = urllib.parse.urlencode({"query": expression}).encode()
        try:
            with urllib.request.urlopen(
                f"http://{self.address}/api/v1/query", form, timeout=PATIENCE_SECONDS
            ) as response:
                return "", json.load(response)["data"]["result"]
        except urllib.error.HTTPError as error:
            with error:
                body = error.read().decode()
            # Before its storage is ready, Prometheus answers 503 in plain text.
            return json.loads(body)["error"] if body.startswith("{") else f"does not answer: {body}", []
        except OSError as error:
            return f"does not answer: {error}", []


class Prometheus(ConfiguredPrometheus):
    """Scrapes these targets every second, and evaluates rules as often."""

    def __init__(
        self,
        folder: Path,
        targets: Sequence[str],
        rules: Sequence[Path] = (),
        alertmanager: str = "",
        job: str = "accelerators",
    ) -> None:
        config = folder / "prometheus.yml"
        alerting = {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]} if alertmanager else {}
        config.write_text(
            yaml.safe_dump(
                {
                    "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                    "rule_files": [str(rule) for rule in rules],
                    "alerting": alerting,
                    "scrape_configs": [{"job_name": job, "static_configs": [{"targets": list(targets)}]}],
                }
            )
        )
        super().__init__(config)


class Messages:
    """Receives the messages of an Alertmanager: firing alerts of each message, and all resolved alerts."""

    def __init__(self) -> None:
        self.firing: list[list[dict[str, str]]] = []
        self.resolved: list[dict[str, str]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())

    def __enter__(self) -> Messages:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/"

    def of(self, alert: str) -> list[list[dict[str, str]]]:
        return [message for message in self.firing if any(labels["alertname"] == alert for labels in message)]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        firing, resolved = self.firing, self.resolved

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:  # the name that http.server calls
                alerts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["alerts"]
                firing.append([alert["labels"] for alert in alerts if alert["status"] == "firing"])
                resolved.extend(alert["labels"] for alert in alerts if alert["status"] == "resolved")
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Write nothing to standard error."""

        return Handler


class Alertmanager(_Server):
    """An Alertmanager that sends alerts nowhere, unless its configuration says otherwise."""

    def __init__(self, folder: Path, config: Path | None = None) -> None:
        address = free_address()
        if config is None:
            config = folder / "alertmanager.yml"
            config.write_text("route: {receiver: none, group_wait: 0s}\nreceivers: [{name: none}]\n")
        super().__init__(
            [
                tool("prometheus-alertmanager"),
                f"--config.file={config}",
                f"--storage.path={folder}/alertmanager",
                f"--web.listen-address={address}",
                "--cluster.listen-address=",
                "--log.level=error",
            ],
            address,
        )

    def send(self, alerts: Sequence[Mapping[str, str]]) -> None:
        """Send alerts by their labels, as Prometheus does."""
        body = json.dumps([{"labels": labels} for labels in alerts]).encode()
        url = f"http://{self.address}/api/v2/alerts"
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS):
            pass

    def uninhibited(self) -> list[dict[str, str]]:
        """Return the labels of the alerts that are not inhibited."""
        alerts = self.get("/api/v2/alerts?inhibited=false") or ()
        return [alert["labels"] for alert in alerts]

    def names(self) -> set[str]:
        return {alert["labels"]["alertname"] for alert in self.get("/api/v2/alerts") or ()}
