"""The servers of a drill: Prometheus and Alertmanager with our files in a hurry, and the person on call, who hears all."""

from __future__ import annotations

import json
import re
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

from grafana.drill_node import Actor
from kits.captures import ROOT
from kits.prometheus import Alertmanager, ConfiguredPrometheus

# How many times faster than on a real day windows and waits pass.
HURRY = 6
SCRAPE_SECONDS = 15
DEPLOY = ROOT / "deploy"
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = r"\d+(?:ms|[smhd])"
_WINDOW = re.compile(rf"(?<=[\[:]){_DURATION}(?=[\]:])|(?<=offset ){_DURATION}")


def hurried(duration: str) -> str:
    """A sixth of a duration."""
    unit = duration.lstrip("0123456789")
    return f"{round(int(duration.removesuffix(unit)) * _SECONDS[unit] / HURRY * 1000)}ms"


def hurry(document: Any) -> Any:
    """A file of rules or of Alertmanager in which all durations are hurried."""
    if isinstance(document, Mapping):
        return {key: hurry(value) for key, value in document.items()}
    if isinstance(document, list):
        return [hurry(value) for value in document]
    if isinstance(document, str) and re.fullmatch(_DURATION, document):
        return hurried(document)
    return _WINDOW.sub(lambda match: hurried(match[0]), document) if isinstance(document, str) else document


class Receiver(ThreadingHTTPServer):
    """What Alertmanager sends to the person on call."""

    def __init__(self) -> None:
        self.notifications: list[Any] = []
        notifications = self.notifications

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:  # the name that http.server calls
                body = self.rfile.read(int(self.headers["Content-Length"]))
                notifications.append({"at": time.time(), **json.loads(body)})
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        super().__init__(("127.0.0.1", 0), Handler)

    def __enter__(self) -> Receiver:
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


@dataclass
class Spell:
    """From the first message on an alert of a node to the message that it has ended."""

    begins: float
    ends: float | None = None


def spells(notifications: list[Any], begun: float) -> Mapping[str, Mapping[str, list[Spell]]]:
    """By node and alert, in played minutes."""
    found: dict[str, dict[str, list[Spell]]] = defaultdict(lambda: defaultdict(list))
    for notification in notifications:
        minute = (notification["at"] - begun) / 60 * HURRY
        firing = {}
        for alert in notification["alerts"]:
            key = alert["labels"].get("instance", "the fleet"), alert["labels"]["alertname"]
            firing[key] = firing.get(key, False) or alert["status"] == "firing"
        for (node, name), fires in firing.items():
            known = found[node][name]
            if fires and (not known or known[-1].ends is not None):
                known.append(Spell(minute))
            elif not fires and known and known[-1].ends is None:
                known[-1].ends = minute
    return found


def prometheus_of(folder: Path, actors: Mapping[str, Actor], manager: str) -> ConfiguredPrometheus:
    rules = []
    for file in sorted((DEPLOY / "prometheus" / "rules").glob("*.yml")):
        rules.append(folder / file.name)
        rules[-1].write_text(yaml.safe_dump(hurry(yaml.safe_load(file.read_text()))))
    every = hurried(f"{SCRAPE_SECONDS}s")
    targets = [{"targets": [actor.address], "labels": {"instance": name}} for name, actor in actors.items()]
    config = {
        "global": {"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": every},
        "rule_files": [str(file) for file in rules],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [manager]}]}]},
        "scrape_configs": [{"job_name": "accelerators", "static_configs": targets}],
    }
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump(config))
    return ConfiguredPrometheus(
        path, flags=[f"--query.lookback-delta={hurried('5m')}", f"--rules.alert.resend-delay={hurried('1m')}"]
    )


def manager_of(folder: Path, receiver: Receiver) -> Alertmanager:
    config = hurry(yaml.safe_load((DEPLOY / "alertmanager" / "alertmanager.yml").read_text()))
    for one in config["receivers"]:
        one["webhook_configs"] = [{"url": f"http://127.0.0.1:{receiver.server_address[1]}/", "send_resolved": True}]
    path = folder / "alertmanager.yml"
    path.write_text(yaml.safe_dump(config))
    return Alertmanager(folder, path)
