"""The site on the local socket: for our own user alone, without passwords, and it says what configuration it was read by."""

from __future__ import annotations

import http.client
import json
import socket
import stat

from kits.daemon import Daemon


class _Local(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=20)
        self._path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self._path))


def get(path, target):
    connection = _Local(path)
    try:
        connection.request("GET", target)
        answer = connection.getresponse()
        return answer, answer.read()
    finally:
        connection.close()


def test_our_own_user_gets_everything_without_a_password(tmp_path):
    web = tmp_path / "web.yml"
    web.write_text("basic_auth_users:\n  someone: $2b$04$abcdefghijklmnopqrstuuvPSnZPWfEAMRiTaTO7yTE9yTfMxlWjy\n")
    with Daemon(tmp_path, arguments=("--web.config.file", str(web))) as daemon:
        path = tmp_path / "run" / "web.sock"
        daemon.until(path.exists)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        answer, body = get(path, "/api/v1/snapshot")
        assert (answer.status, json.loads(body)["schema"]) == (200, "telemetry.snapshot/1")
        assert len(answer.headers["X-Telemetry-Reads"]) == 8
        answer, body = get(path, "/api/v1/history")
        assert (answer.status, json.loads(body)["schema"]) == (200, "telemetry.history/1")
        daemon.process.terminate()
        daemon.process.wait()
        assert not path.exists()


def test_what_is_read_differs_with_the_configuration_and_is_not_told_of_simulated_devices(tmp_path):
    words = []
    for number, (config, flags) in enumerate(
        (("", ()), ("", ()), ("[sources.nvml]\ninterval = 9.0\n", ()), ("", ("--demo",)))
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        with Daemon(folder, config, flags) as daemon:
            path = folder / "run" / "web.sock"
            daemon.until(path.exists)
            words.append(get(path, "/api/v1/snapshot")[0].headers["X-Telemetry-Reads"])
    assert words[0] == words[1] != words[2]
    assert words[3] == ""
