"""The targets of the fuzzer: everything that reads foreign data, each with its invariants."""

import json
import socket
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from fuzz.damage import damaged, damaged_bytes, damaged_plain
from kits import snapshots
from kits.attackers import converse
from kits.captures import own_cases, registered_parsers
from kits.page_lint import complaints
from kits.planted_identities import INSERTIONS, PLANTS, Insertion, check_planted, planted, with_one_plant
from kits.pod_resources import allocatable, listed
from kits.web_server import connect, fetch, read_to_end
from telemetry_daemon.commands.parse import parse_captures
from telemetry_daemon.config.file import load as load_config
from telemetry_daemon.config.inputs import ConfigError, ConfigInputs
from telemetry_daemon.config.table import default_toml
from telemetry_daemon.masking.mask import Mask
from telemetry_daemon.recordings.recording_file import RecordingError, RecordingFile
from telemetry_daemon.site.routes import Site
from telemetry_daemon.state.devices_file import load as load_state
from telemetry_daemon.web.access.toolkit import load_web_config
from telemetry_daemon.web.addresses import WebConfigError
from telemetry_daemon.web.messages import Request
from telemetry_exporters.documents import snapshot_csv
from telemetry_exporters.documents import snapshot_json as json_form
from telemetry_exporters.prometheus import renderer
from telemetry_parsers.checks.suite import parse_violations
from telemetry_parsers.codec.captures import CodecError, capture_to_plain, decode_line, encode_line
from telemetry_parsers.contract import Parser
from telemetry_parsers.model import Capture, Library, Output
from telemetry_parsers.owners.pod_resources import DecodeError, allocatable_in, pods_in
from telemetry_parsers.vendors.ascend.rank_table import RankTableError, read_rank_table

# Far more than the slowest example needs, and far less than anything of more than linear time.
MAX_CPU_SECONDS = 10.0


@dataclass(frozen=True)
class Target:
    """A part to be fuzzed: its inputs, and a check that raises if an invariant is violated."""

    name: str
    inputs: st.SearchStrategy[Any]
    check: Callable[[Any], None]


def targets(folder: Path, port: int) -> list[Target]:
    """Return all targets; files are written into the folder, and a server of `SITE` listens on the port."""
    parsers = registered_parsers()
    return [
        *(_parser(name, parser) for name, parser in sorted(parsers.items())),
        Target("configuration", damaged_bytes(_configurations()), _bounded(_in_file(folder, _reads_configuration))),
        Target("web configuration", damaged_bytes(WEB), _bounded(_in_file(folder, _reads_web_configuration))),
        Target("recording", damaged_bytes(_recordings(parsers)), _bounded(_in_file(folder, _reads_recording))),
        Target("masking", _plantings(parsers), _bounded(lambda given: check_planted(*given))),
        Target("masking of anything", damaged(_texts(parsers)), _bounded(_masks)),
        Target("state", damaged_bytes(STATES), _bounded(_in_file(folder, load_state))),
        Target("rank table", damaged(RANK_TABLES), _bounded(_reads_rank_table)),
        Target("pod resources", damaged_bytes(POD_RESOURCES), _bounded(_decodes_pod_resources)),
        Target("HTTP", st.lists(damaged_bytes(REQUESTS), min_size=1, max_size=4), _bounded(converse)),
        Target("requests", _requests(), _bounded(_answers)),
        Target("socket", st.lists(damaged_bytes(REQUESTS), max_size=4), lambda pieces: _outlives(port, pieces)),
    ]


def _bounded(check: Callable[[Any], object]) -> Callable[[Any], None]:
    """Return the check with a time limit."""

    def bounded(given: Any) -> None:
        begun = time.process_time()
        check(given)
        spent = time.process_time() - begun
        assert spent < MAX_CPU_SECONDS, f"took {spent:.1f} s of CPU"

    return bounded


def _in_file(folder: Path, check: Callable[[Path], object]) -> Callable[[bytes], None]:
    path = Path(tempfile.mkdtemp(dir=folder)) / "given"

    def checked(content: bytes) -> None:
        path.write_bytes(content)
        check(path)

    return checked


# --- parsers


def _parser(name: str, parser: Parser) -> Target:
    captures = [capture for case in own_cases(name) for capture in case.captures(parser) if capture.outputs]
    texts = sorted({output.text for capture in captures for output in capture.outputs if output.text}) or [""]
    data = sorted(
        {json.dumps(output.data) for capture in captures for output in capture.outputs if output.data is not None}
    )
    damaged_data = damaged(data or ["{}"])

    def captured(capture: Capture, position: int, text: str, plain_text: str, status: int | None) -> Capture:
        position %= len(capture.outputs)
        output = replace(capture.outputs[position], status=status)
        if output.data is None:
            output = replace(output, text=text)
        else:
            # As from a worker. Data as deep as Python's stack would break the checks, which copy the data.
            with suppress(CodecError):  # invalid JSON remains text
                output = replace(output, data=decode_line(plain_text if _depth(plain_text) < 200 else "null"))
        return replace(capture, outputs=(*capture.outputs[:position], output, *capture.outputs[position + 1 :]))

    statuses = st.sampled_from([None, 0, 1, -9])
    inputs = st.builds(captured, st.sampled_from(captures), st.integers(0, 20), damaged(texts), damaged_data, statuses)
    if data:
        inputs |= _with_damaged_data(captures)
    return Target(name, inputs, _bounded(lambda capture: _keeps_the_contract(parser, capture)))


@st.composite
def _with_damaged_data(draw: st.DrawFn, captures: Sequence[Capture]) -> Capture:
    """Draw a capture in which a part of one output's data is changed, removed or added."""
    capture = draw(st.sampled_from(captures))
    position = draw(st.integers(0, len(capture.outputs) - 1))
    output = capture.outputs[position]
    changed = replace(output, data=draw(damaged_plain(output.data)))
    return replace(capture, outputs=(*capture.outputs[:position], changed, *capture.outputs[position + 1 :]))


def _depth(text: str) -> int:
    """Return the maximal depth of brackets in a text."""
    return max(accumulate((sign in "[{") - (sign in "]}") for sign in text), default=0)


def _keeps_the_contract(parser: Parser, capture: Capture) -> None:
    violations = parse_violations(parser, capture)
    assert not violations, violations
    snapshot = parse_captures(parser, [capture])
    wrong = complaints(renderer.text_page(snapshot))
    assert not wrong, wrong
    assert snapshot_csv.render(snapshot)
    json.loads(json_form.render(snapshot))


# --- masking


def _plantings(parsers: Mapping[str, Parser]) -> st.SearchStrategy[tuple[Parser, Capture]]:
    """Draw a capture with the shapes of identities in every line, or with one of them in one line."""
    captures = [
        (parsers[case.tool], capture)
        for case in own_cases()
        if case.tool in parsers
        for capture in case.captures(parsers[case.tool])
    ]

    def changed(
        pair: tuple[Parser, Capture], start: int, line: int | None, insert: Insertion
    ) -> tuple[Parser, Capture]:
        parser, capture = pair
        if line is None:
            return parser, planted(capture, (*PLANTS[start:], *PLANTS[:start]), insert)
        return parser, with_one_plant(capture, line, PLANTS[start], insert)

    starts = st.integers(0, len(PLANTS) - 1)
    lines = st.one_of(st.none(), st.integers(0, 1000))
    return st.builds(changed, st.sampled_from(captures), starts, lines, st.sampled_from(INSERTIONS))


def _texts(parsers: Mapping[str, Parser]) -> list[str]:
    cases = [case for case in own_cases() if case.tool in parsers]
    captures = [capture for case in cases for capture in case.captures(parsers[case.tool])]
    return sorted({output.text for capture in captures for output in capture.outputs if output.text})


def _masks(text: str) -> None:
    """Check that a masked text has as many lines."""
    capture = Capture("any", "any", Library("any"), (Output(text=text),))
    hidden = Mask(b"of the fuzzer", ()).masked_capture(capture, None)
    assert hidden.outputs[0].text.count("\n") == text.count("\n")


# --- files


def _configurations() -> list[str]:
    full = default_toml()
    return [full, "\n".join(line.removeprefix("# ") for line in full.splitlines()), *CONFIGURATIONS]


CONFIGURATIONS = [
    '[web]\nlisten_address = [":19820"]\nconfig_file = "/etc/telemetry/web.yml"\n[sources.nvml]\ninterval = 2.0\n',
    '[sources.hy-smi]\nmode = "always"\npath = "/opt/hyhal/bin/hy-smi"\ndeadline = 5.5\n[expect.devices]\nnvidia = 8\n',
    'rank_table = "/user/hccl.json"\n[export.textfile]\npath = "/tmp/t.prom"\ninterval = 15\n[log]\nlevel = "debug"\n',
]


def _reads_configuration(path: Path) -> None:
    with suppress(ConfigError):  # a refusal is a good answer
        load_config(ConfigInputs(str(path), known_sources=("host", "nvml", "hy-smi")))


WEB = [
    "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n  min_version: TLS12\n",
    "basic_auth_users:\n  alice: $2y$10$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi\n",
    "http_server_config:\n  http2: true\n  headers:\n    X-Frame-Options: deny\nrate_limit:\n  interval: 1s\n  burst: 5\n",
]


def _reads_web_configuration(path: Path) -> None:
    with suppress(WebConfigError):  # a refusal is a good answer
        load_web_config(str(path))


def _recordings(parsers: Mapping[str, Parser]) -> list[str]:
    first = {name: own_cases(name)[0].captures(parser) for name, parser in parsers.items()}
    return [
        "".join(encode_line(capture_to_plain(capture)) + "\n" for capture in captures) for captures in first.values()
    ]


def _reads_recording(path: Path) -> None:
    with suppress(RecordingError):  # a refusal is a good answer
        for capture in RecordingFile(path):
            assert encode_line(capture_to_plain(capture))


_IDENTITY = (
    '{"id":"GPU-1","vendor":"nvidia","device":"0","model":"H100","index":0,"uuid":null,"bus_id":null,"partition":null,'
    '"parent":null,"serial":null,"power_kind":null,"listed_by":["nvml"],"lost_since":null,"simulated":false}'
)
STATES = [f'{{"schema":"telemetry.devices/1","devices":[{_IDENTITY},{_IDENTITY.replace("GPU-1", "GPU-2")}]}}\n']
_RANKS = (
    '{"version":"1.0","server_count":"1","status":"completed","server_list":[{"server_id":"10.0.0.1","device":['
    '{"device_id":"0","device_ip":"192.168.1.8","rank_id":"0"},{"device_id":"1","device_ip":"192.168.1.9","rank_id":"1"}]}]}'
)
RANK_TABLES = [_RANKS]


def _reads_rank_table(text: str) -> None:
    with suppress(RankTableError):  # a refusal is a good answer
        read_rank_table(text)


# --- the kubelet's answers

# Short enough that every length is one ASCII character.
POD_RESOURCES = [
    listed({"name": "a", "namespace": "b", "containers": [{"name": "c", "devices": [{"resource_name": "amd.com/gpu", "device_ids": ["1", "2"]}]}]}).decode("ascii"),
    allocatable({"nvidia.com/gpu": ("GPU-1",)}).decode("ascii"),
]  # fmt: skip


def _decodes_pod_resources(answer: bytes) -> None:
    for decode in (pods_in, allocatable_in):
        with suppress(DecodeError):  # a refusal is a good answer
            decode(answer, lambda _resource: True)


# --- HTTP

REQUESTS = [
    "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1\r\n\r\n",
    "GET /metrics?name[]=accelerator_up&name%5B%5D=x HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello",
    "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "HEAD http://x/healthz HTTP/1.0\r\nConnection: keep-alive\r\nAuthorization: Basic YTpi\r\n\r\n",
]


def _requests() -> st.SearchStrategy[Request]:
    accepts = damaged(["application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1"])
    encodings = damaged(["gzip;q=1.0, identity; q=0.5, *;q=0"])
    queries = damaged(["name[]=accelerator_up&name[]=accelerator_power_watts", "name%5B%5D=x;y=&&=%zz"])
    paths = st.one_of(st.sampled_from(["/", "/metrics", "/api/v1/snapshot", "/readyz"]), damaged(["/metrics"]))
    headers = st.builds(lambda accept, encoding: {"accept": accept, "accept-encoding": encoding}, accepts, encodings)
    return st.builds(Request, st.sampled_from(["GET", "HEAD"]), paths, queries, headers)


_SNAPSHOT = snapshots.snapshot(snapshots.full_device(), sources=(snapshots.source(),))
SITE = Site(lambda: _SNAPSHOT, lambda: (True, "ready"), lambda _: b"")


def _answers(request: Request) -> None:
    response = SITE.respond(request)
    assert response.status in (200, 404)
    assert all("\n" not in value and "\r" not in value for _, value in response.headers)


def _outlives(port: int, pieces: list[bytes]) -> None:
    """Send raw bytes to a real server. Its answer must be HTTP or empty, and it must answer the next request."""
    # Hanging up on garbage is a valid answer.
    with connect(port) as client, suppress(ConnectionResetError, BrokenPipeError):
        for piece in pieces:
            client.sendall(piece)
        client.shutdown(socket.SHUT_WR)
        answer = read_to_end(client)
        assert answer == b"" or answer.startswith(b"HTTP/1.1 ")
    assert fetch(port, "/healthz").status == 200
