"""The configuration files of deploy/prometheus, with paths and times changed for a test and nothing else."""

import contextlib
import http.server
import json
import re
import shutil
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from kits.captures import ROOT
from kits.daemon import Daemon

FOLDER = ROOT / "deploy" / "prometheus"
NAMES = sorted(file.name for file in FOLDER.glob("*.yml"))
# It has neither rules nor alerts of its own.
AGENTS = ("shard.yml",)
_TARGETS = "targets/accelerators.yml"
_STORE = "http://store.example.com:9090"
_SOON = (
    ("scrape_interval: 15s", "scrape_interval: 1s"),
    ("scrape_timeout: 10s", "scrape_timeout: 1s"),
    ("evaluation_interval: 15s", "evaluation_interval: 1s"),
    ("batch_send_deadline: 5s", "batch_send_deadline: 1s"),
)
_KUBERNETES = re.compile(r"    kubernetes_sd_configs:\n(?:      .*\n)+")
_ALL_ADDRESSES = re.compile(r'msg="serving" .*?address="([^"]+)"')


class Placed:
    def __init__(self, folder: Path, groups: Sequence[dict[str, object]]) -> None:
        shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("node.yml"))
        self.folder = folder
        (folder / _TARGETS).write_text(json.dumps(list(groups)))

    def config(self, name: str, *changes: tuple[str, str]) -> Path:
        """Return the file with test times and these replacements; each replaced text must exist."""
        path = self.folder / name
        text = path.read_text()
        for before, after in changes:
            assert before in text, f"{name} has no {before!r}"
            text = text.replace(before, after)
        for before, after in _SOON:
            text = text.replace(before, after)
        path.write_text(text)
        return path

    def storing_at(self, name: str, address: str, *changes: tuple[str, str]) -> Path:
        return self.config(name, (_STORE, f"http://{address}"), *changes)


def without_kubernetes(text: str) -> str:
    """Replace the nodes of a cluster, which Debian's Prometheus does not support, by those of a file."""
    changed, times = _KUBERNETES.subn(f"    file_sd_configs:\n      - files: [{_TARGETS}]\n", text)
    assert times == 1
    return changed


@contextlib.contextmanager
def many_addresses(folder: Path, count: int) -> Iterator[list[str]]:
    more = [word for number in range(2, count + 1) for word in ("--web.listen-address", f"127.0.0.{number}:0")]
    folder.mkdir()
    expected = "[expect.devices]\nnvidia = 2\n"
    with Daemon(folder, expected, ("--demo", "2xnvidia", *more)) as daemon:
        addresses = next(found[1].split(", ") for line in daemon.lines if (found := _ALL_ADDRESSES.search(line)))
        assert len(addresses) == count
        daemon.address = addresses[0]
        daemon.until(lambda: daemon.get("/readyz")[0] == 200)
        yield addresses


class _Inventory(http.server.SimpleHTTPRequestHandler):
    def guess_type(self, path: object) -> str:
        return "application/json"

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextlib.contextmanager
def inventory(folder: Path, groups: Sequence[dict[str, object]]) -> Iterator[str]:
    folder.mkdir()
    (folder / "accelerator-nodes").write_text(json.dumps(list(groups)))
    handler = partial(_Inventory, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
