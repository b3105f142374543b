"""The address of a page under another exporter's names may be taken: the rest works, and the daemon tries again."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from pathlib import Path

from kits.command_line import run_main
from kits.daemon import Daemon


def is_served(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=60) as answer:
            return b"DCGM_FI_DEV_GPU_UTIL" in answer.read()
    except urllib.error.URLError:  # the daemon does not listen there yet
        return False


def test_a_port_that_is_taken_is_a_problem_and_is_tried_again(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        config = f'[compat.dcgm-exporter]\nlisten_address = "{address}"\n'
        with Daemon(tmp_path, config, ("--demo", "1xnvidia")) as daemon:
            daemon.until(lambda: daemon.document()["devices"])
            assert 'telemetry_compat_up{exporter="dcgm-exporter"} 0' in daemon.page()
            assert daemon.logged("compat.dcgm-exporter.listen_address: cannot listen on") == 1
            found = run_main("doctor", "--config", str(daemon.config_path))
            assert "the address of compat.dcgm-exporter cannot be served" in found.stdout
            taken.close()
            daemon.until(lambda: is_served(address))
            daemon.until(lambda: 'telemetry_compat_up{exporter="dcgm-exporter"} 1' in daemon.page())
