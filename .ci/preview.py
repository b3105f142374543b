"""Pictures of the dashboards: hours of a simulated fleet in a real Prometheus, drawn with Grafana's own components."""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from preview_history import HOURS as HOURS_SIMULATED
from preview_history import STEP_SECONDS, history

CHECKOUT = Path(__file__).resolve().parent.parent
PREVIEW = CHECKOUT / "grafana" / "preview"
DASHBOARDS = CHECKOUT / "grafana" / "dashboards"
RULES = CHECKOUT / "deploy" / "prometheus" / "rules" / "telemetry-recording.yml"
ALERTS = RULES.with_name("telemetry-alerts.yml")
PICTURES = CHECKOUT / "docs" / "images"

HOURS_SHOWN = 6
# Records the start of each alert that fires at the end of the simulation.
ALERT_START_RULE = {
    "record": "ALERTS_FOR_STATE",
    "expr": "min without (alertstate) (min_over_time(timestamp(ALERTS)[8h:1m]))",
}
# Each pass reads the results of the previous one: a score needs a recorded deviation, which needs a recorded average.
PASSES = 3
_START_TIMEOUT_SECONDS = 60.0
_REMEDIES_BY_TOOL = {
    "node": "apt-get install nodejs npm",
    "npm": "apt-get install npm",
    "chromium": "apt-get install chromium",
    "prometheus": "apt-get install prometheus",
    "promtool": "apt-get install prometheus",
}
# A user would choose these values to follow the simulated incidents.
CHOSEN_VALUES = {
    "telemetry-node": {"node": "gpu-02"},
    "telemetry-card": {"node": "gpu-02", "vendor": "nvidia", "device": "3"},
    "telemetry-stragglers": {"node": "gpu-01|gpu-02", "vendor": "nvidia"},
}
# Long pages get an additional picture of this many first sections.
FIRST_SECTIONS = {"telemetry-fleet": 3}


@dataclass(frozen=True)
class PictureSettings:
    """The width of the pictures in pixels, and whether collapsed rows are opened."""

    width: int = 1600
    opened: bool = False


class PreviewError(Exception):
    """A missing program or a failure, with the remedy."""


def require_tools() -> None:
    """Raise PreviewError with the names of the programs that are missing."""
    missing = [f"{tool} ({remedy})" for tool, remedy in _REMEDIES_BY_TOOL.items() if shutil.which(tool) is None]
    if missing:
        raise PreviewError("these programs are missing: " + ", ".join(missing))


def install_packages() -> None:
    """Install the packages of package.json if they are missing."""
    stamp = PREVIEW / "node_modules" / ".package.json"
    current = (PREVIEW / "package.json").read_text("utf-8")
    if stamp.exists() and stamp.read_text("utf-8") == current:
        return
    run(["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"], PREVIEW)
    stamp.write_text(current, "utf-8")


def run(command: Sequence[str], folder: Path, *, quiet: bool = False) -> None:
    """Run a program until it exits. Raise PreviewError with its output if it fails."""
    done = subprocess.run(command, cwd=folder, capture_output=quiet, text=True, check=False)
    if done.returncode:
        raise PreviewError(f"{' '.join(command[:3])} failed: {done.stderr or 'see above'}")


@contextlib.contextmanager
def prometheus(data: Path) -> Iterator[str]:
    """Yield the address of a Prometheus that serves this data and scrapes nothing."""
    config = data.parent / "prometheus.yml"
    config.write_text("{}\n", "utf-8")
    with socket.create_server(("127.0.0.1", 0)) as unused:
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    command = [
        "prometheus",
        f"--config.file={config}",
        f"--storage.tsdb.path={data}",
        f"--web.listen-address={address}",
    ]
    with subprocess.Popen([*command, "--log.level=error"]) as server:
        try:
            wait_until_ready(f"http://{address}", server)
            yield f"http://{address}"
        finally:
            server.terminate()


def wait_until_ready(url: str, server: subprocess.Popen[bytes]) -> None:
    """Return when Prometheus is ready. Raise PreviewError if the process exits or takes too long."""
    end = time.monotonic() + _START_TIMEOUT_SECONDS
    while server.poll() is None and time.monotonic() < end:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/-/ready", timeout=2):  # noqa: S310  # loopback, and not up yet
            return
        time.sleep(0.2)
    raise PreviewError("Prometheus did not start")


def write_blocks(data: Path, begin: int, end: int) -> None:
    """Write the history and the results of the recording rules as blocks of Prometheus' storage."""
    text = data.parent / "history.txt"
    with text.open("w", encoding="utf-8") as file:
        file.writelines(history(begin))
    run(["promtool", "tsdb", "create-blocks-from", "openmetrics", str(text), str(data)], data.parent, quiet=True)
    text.unlink()
    alerts, since = data.parent / "alerts.yml", data.parent / "since.yml"
    alerts.write_text(yaml.safe_dump(alerts_as_records(yaml.safe_load(ALERTS.read_text("utf-8")))), "utf-8")
    since.write_text(yaml.safe_dump(one_group([ALERT_START_RULE])), "utf-8")
    for number, rules in enumerate((*[RULES] * PASSES, alerts, since)):
        folder = data.parent / f"recorded-{number}"
        with prometheus(data) as url:
            backfill(url, rules, folder, begin, end)
        for block in folder.iterdir():
            block.rename(data / block.name)


def alerts_as_records(document: dict[str, Any]) -> dict[str, Any]:
    """Return recording rules for the series ALERTS, because promtool does not backfill alerts."""
    return one_group([_as_record(rule) for group in document["groups"] for rule in group["rules"]])


def _as_record(rule: dict[str, Any]) -> dict[str, Any]:
    pending_period = rule.get("for", "1m")
    expression = rule["expr"]
    if pending_period != "1m":
        minutes = int(pending_period.removesuffix("m"))
        expression = f"count_over_time(({expression})[{pending_period}:1m]) >= {minutes}"
    labels = {"alertname": rule["alert"], "alertstate": "firing", **rule["labels"]}
    return {"record": "ALERTS", "expr": f"({expression}) * 0 + 1", "labels": labels}


def one_group(rules: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a rule file with one group."""
    return {"groups": [{"name": "preview", "rules": rules}]}


def backfill(url: str, rules: Path, folder: Path, begin: int, end: int) -> None:
    """Evaluate a file of recording rules, and write the results as blocks into a folder."""
    folder.mkdir()
    times = [f"--start={begin}", f"--end={end}", f"--eval-interval={STEP_SECONDS}s", f"--output-dir={folder}"]
    run(
        ["promtool", "tsdb", "create-blocks-from", "rules", f"--url={url}", *times, str(rules)],
        folder.parent,
        quiet=True,
    )


def draw(url: str, end: int, work: Path, pictures: Path, settings: PictureSettings) -> None:
    """Draw a picture of each dashboard."""
    pictures.mkdir(parents=True, exist_ok=True)
    # grafana/preview/src/render.mjs reads these settings.
    plan = {
        "prometheus": url,
        "chromium": shutil.which("chromium"),
        "dashboards": str(DASHBOARDS),
        "pictures": str(pictures),
        "range": {"from": end - HOURS_SHOWN * 3600, "to": end},
        "scrapeSeconds": STEP_SECONDS,
        "width": settings.width,
        "opened": settings.opened,
        "choices": CHOSEN_VALUES,
        "heads": FIRST_SECTIONS,
    }
    file = work / "plan.json"
    file.write_text(json.dumps(plan), "utf-8")
    run(["node", "src/render.mjs", str(file)], PREVIEW)


def main(arguments: list[str]) -> int:
    """Draw all dashboards. Return 1 and print the reason if that fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", type=Path, default=PICTURES, help="folder for the pictures")
    parser.add_argument("--data", type=Path, help="keep the simulated data in this folder, and reuse it in later runs")
    parser.add_argument("--width", type=int, default=PictureSettings.width, help="in pixels")
    parser.add_argument("--opened", action="store_true", help="open collapsed rows")
    options = parser.parse_args(arguments)
    try:
        require_tools()
        install_packages()
        with tempfile.TemporaryDirectory() as temporary:
            settings = PictureSettings(options.width, options.opened)
            preview((options.data or Path(temporary)).resolve(), options.pictures.resolve(), settings)
    except PreviewError as error:
        sys.stderr.write(f"preview: {error}\n")
        return 1
    return 0


def preview(work: Path, pictures: Path, settings: PictureSettings) -> None:
    """Draw the pictures from the data in the work folder, which is created if it is missing."""
    data = work / "data"
    time_file = work / "end"
    if not time_file.exists():
        # At half past the hour, no mark is at the very end of the time axis.
        end = int(time.time()) // 3600 * 3600 - 1800
        data.mkdir(parents=True, exist_ok=True)
        write_blocks(data, end - int(HOURS_SIMULATED * 3600), end)
        time_file.write_text(str(end), "utf-8")
    with prometheus(data) as url:
        draw(url, int(time_file.read_text("utf-8")), work, pictures, settings)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
