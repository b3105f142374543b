"""The site's answers: correct, rendered once per snapshot, complete when compressed."""

import gzip
import json
import re
import subprocess
import time
import zlib
from dataclasses import replace

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from kits import snapshots as kit
from kits.page_lint import complaints
from telemetry_daemon.site.process_metrics import ProcessMetrics
from telemetry_daemon.site.rendered import GzippedBody
from telemetry_daemon.site.routes import Site
from telemetry_daemon.web.messages import Request
from telemetry_exporters.prometheus.renderer import Syntax, text_page
from telemetry_parsers.model import MergedReading, Metric

OPENMETRICS = "application/openmetrics-text;version=1.0.0"
SNAPSHOT = kit.snapshot(kit.full_device())
PROCESS_TEXT = b"# HELP process_max_fds Most.\n# TYPE process_max_fds gauge\nprocess_max_fds 1024.0\n"


class Node:
    """A node whose snapshot, readiness and process metrics a test sets; counts the site's requests for them."""

    def __init__(self, snapshot=None, **site):
        self.snapshot = kit.snapshot(kit.full_device(), sources=(kit.source(),)) if snapshot is None else snapshot
        self.readiness = (True, "ready")
        self.process_text = PROCESS_TEXT
        self.process_reads = 0
        self.snapshot_reads = 0
        self.site = Site(self._snapshot, lambda: self.readiness, self._process_metrics, **site)

    def _snapshot(self):
        self.snapshot_reads += 1
        return self.snapshot

    def _process_metrics(self, syntax):
        assert isinstance(syntax, Syntax)
        self.process_reads += 1
        return self.process_text

    def get(self, target, **headers):
        path, _, query = target.partition("?")
        return self.site.respond(
            Request("GET", path, query, {name.replace("_", "-"): text for name, text in headers.items()})
        )


def body_of(response):
    body = b"".join(response.body)
    return gzip.decompress(body) if dict(response.headers).get("Content-Encoding") == "gzip" else body


def test_metrics_are_the_page_and_the_process():
    node = Node()
    response = node.get("/metrics")
    assert (response.status, response.content_type) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert body_of(response) == text_page(node.snapshot) + PROCESS_TEXT
    assert complaints(body_of(response)) == []


@pytest.mark.parametrize("accept", ["", OPENMETRICS])
@pytest.mark.parametrize("query", ["", "?name[]=accelerator_up&name[]=process_max_fds", "?name[]=nothing"])
def test_compressed_page_equals_the_plain_page(accept, query):
    node = Node()
    plain, compressed = (
        node.get("/metrics" + query, accept=accept, accept_encoding=encoding) for encoding in ("", "gzip")
    )
    assert dict(compressed.headers)["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in dict(plain.headers)
    assert body_of(compressed) == body_of(plain)
    assert plain.content_type == compressed.content_type


@pytest.mark.parametrize("deflate", [zlib, pytest.param("isal", id="isal")])
@pytest.mark.parametrize("body", [b"", b"x", b"ab" * 100_000, bytes(range(256)) * 300])
def test_a_body_is_packed_once_and_every_reader_of_gzip_reads_it_with_any_end(deflate, body):
    if deflate == "isal":
        deflate = pytest.importorskip("isal.isal_zlib", reason="there is no wheel of it for this machine")
    packed = GzippedBody(body, deflate)
    for tail in (b"", b"y", b"ab" * 40_000):
        whole = b"".join(packed.with_tail(tail))
        unpacker = zlib.decompressobj(16 + zlib.MAX_WBITS)  # a decompressor that stops after the first member
        assert unpacker.decompress(whole) + unpacker.flush() == body + tail
        assert (unpacker.eof, unpacker.unused_data) == (True, b"")
        assert gzip.decompress(whole) == body + tail


def test_a_page_is_made_once_for_a_snapshot_however_often_it_is_read():
    node = Node()
    for encoding in ("", "gzip"):
        beginning = node.get("/metrics", accept_encoding=encoding).body[0]
        assert all(node.get("/metrics", accept_encoding=encoding).body[0] is beginning for _ in range(999))
    assert node.process_reads == 2000


def test_page_is_rendered_on_request_once_for_each_snapshot():
    node = Node()
    node.get("/healthz")
    assert node.snapshot_reads == 0
    targets = ("/metrics", "/api/v1/snapshot", "/")
    first = [node.get(target).body[0] for target in targets]
    assert all(node.get(target).body[0] is body for target, body in zip(targets, first, strict=True))
    node.snapshot = replace(node.snapshot, hostname="node18")
    assert all(node.get(target).body[0] is not body for target, body in zip(targets, first, strict=True))
    assert b"node18" in body_of(node.get("/"))


@given(st.lists(st.sampled_from(["/metrics", "/api/v1/snapshot", "/", "new"]), max_size=30), st.booleans())
@settings(max_examples=50, deadline=None)
def test_every_answer_belongs_to_the_current_snapshot(steps, compressed):
    node = Node(kit.snapshot(kit.device(0, kit.reading("power_watts", 0.0))))
    watts = 0
    for step in steps:
        if step == "new":
            watts += 1
            node.snapshot = kit.snapshot(kit.device(0, kit.reading("power_watts", float(watts))))
        else:
            body = body_of(node.get(step, accept_encoding="gzip" if compressed else "")).decode()
            expected = {"/metrics": f"}} {watts}.0\n", "/": f">{watts} W<"}.get(step, f'"power_watts": {watts}.0')
            assert expected in body


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("name[]=accelerator_power_watts", ["accelerator_power_watts"]),
        ("name%5B%5D=accelerator_power_watts", ["accelerator_power_watts"]),
        ("name[]=accelerator_up&name[]=accelerator_info", ["accelerator_info", "accelerator_up"]),
        ("name[]=accelerator_energy_joules_total", ["accelerator_energy_joules_total"]),
        ("name[]=process_max_fds", ["process_max_fds"]),
        ("name[]=accelerator", []),
        ("name[]=accelerator_power", []),
        ("name[]=%ff%00", []),
        ("name[]=", None),
        ("other=1", None),
    ],
)
def test_query_selects_families_by_name(query, names):
    response = Node().get("/metrics?" + query)
    page = body_of(response)
    families = [line.split()[2] for line in page.decode().splitlines() if line.startswith("# TYPE")]
    assert response.status == 200
    assert complaints(page) == []
    if names is None:
        assert len(families) > 10
    else:
        assert families == names
        whole = body_of(Node().get("/metrics"))
        assert all(line in whole.splitlines() for line in page.splitlines())


def test_in_openmetrics_families_and_samples_both_go_by_name():
    node = Node()
    for name in ("accelerator_energy_joules", "accelerator_energy_joules_total"):
        page = body_of(node.get(f"/metrics?name[]={name}", accept=OPENMETRICS)).decode()
        (family,) = read_openmetrics(page)
        assert (family.name, len(family.samples)) == ("accelerator_energy_joules", 1)


@pytest.mark.parametrize(
    ("path", "readiness", "status", "body"),
    [
        ("/readyz", (True, "ready"), 200, b"ready\n"),
        ("/readyz", (False, "waiting for nvml"), 503, b"waiting for nvml\n"),
        ("/healthz", (False, "waiting for nvml"), 200, b"ok\n"),
    ],
)
def test_readiness_and_health(path, readiness, status, body):
    node = Node()
    node.readiness = readiness
    response = node.get(path)
    assert (response.status, body_of(response), response.content_type) == (status, body, "text/plain; charset=utf-8")


@pytest.mark.parametrize("path", ["/nothing", "/metrics/", "/METRICS", "", "/api/v1", "/healthz/x", "/../etc/passwd"])
def test_unknown_path_is_answered_with_a_hint(path):
    response = Node().get(path)
    assert response.status == 404
    assert (
        body_of(response)
        == b"Not found. Try one of /, /api/v1/snapshot, /api/v1/history, /api/v1/events, /healthz, /readyz, /metrics.\n"
    )


def test_path_of_the_metrics_is_configurable():
    node = Node(telemetry_path="/accelerators")
    assert node.get("/metrics").status == 404
    assert node.get("/accelerators").status == 200
    assert b'href="./accelerators"' in body_of(node.get("/"))


def test_vary_header_names_what_an_answer_depends_on():
    node = Node()
    assert dict(node.get("/metrics").headers)["Vary"] == "Accept, Accept-Encoding"
    document = node.get("/api/v1/snapshot")
    assert (dict(document.headers)["Vary"], document.content_type) == (
        "Accept-Encoding",
        "application/json; charset=utf-8",
    )
    assert all(
        dict(node.get(target).headers)["Cache-Control"] == "no-store"
        for target in ("/", "/api/v1/snapshot", "/healthz", "/readyz")
    )


def test_a_plugins_metrics_are_everywhere():
    metric = Metric("accelerator_acme_tank_ratio", "gauge", "ratio", "Level of the tank.", 0, 1, "tank")
    extra = {}
    node = Node(
        kit.snapshot(kit.device(0, MergedReading("acme_tank_ratio", "left", 0.5, "acme"))), plugin_metrics=extra
    )
    assert b"acme_tank" not in body_of(node.get("/metrics"))
    extra[metric.key] = metric  # a plugin that was loaded later
    node.snapshot = replace(node.snapshot)
    assert b"accelerator_acme_tank_ratio{" in body_of(node.get("/metrics"))
    assert json.loads(body_of(node.get("/api/v1/snapshot")))["devices"][0]["readings"] == {
        "acme_tank_ratio": {"left": 0.5}
    }


def test_empty_snapshot_has_process_metrics_only():
    response = Node(kit.snapshot()).get("/metrics")
    assert (response.status, body_of(response)) == (200, PROCESS_TEXT)


FROM_PROC = {"virtual_memory_bytes", "resident_memory_bytes", "start_time_seconds", "cpu_seconds_total"}


def process_values(process):
    page = process.render(Syntax.TEXT).decode()
    return {sample.name: sample.value for family in read_text(page) for sample in family.samples}


def test_process_metrics_are_those_that_psutil_reads():
    ours, process = process_values(ProcessMetrics()), psutil.Process()
    assert set(ours) == {*(f"process_{name}" for name in (*FROM_PROC, "open_fds", "max_fds")), "telemetry_time_seconds"}
    assert ours["process_start_time_seconds"] == pytest.approx(process.create_time(), abs=1.5)
    assert ours["process_cpu_seconds_total"] == pytest.approx(sum(process.cpu_times()[:2]), abs=0.5)
    assert ours["process_virtual_memory_bytes"] == pytest.approx(process.memory_info().vms, rel=0.2)
    assert ours["process_resident_memory_bytes"] == pytest.approx(process.memory_info().rss, rel=0.2)
    assert ours["process_open_fds"] == process.num_fds()
    assert ours["process_max_fds"] == process.rlimit(psutil.RLIMIT_NOFILE)[0]


@pytest.mark.parametrize(
    ("stat", "of_the_node", "missing"),
    [
        (None, None, FROM_PROC),
        ("no process", "", FROM_PROC),
        ("1 (a b) c) S" + " 7" * 40, "cpu 1 2\n", {"start_time_seconds"}),
        ("1 (a) S" + " x" * 40, "btime soon\n", FROM_PROC),
        ("1 (a b) c) S" + " 7" * 40, "cpu 1 2\nbtime 1700000000\n", set()),
    ],
)
def test_metrics_that_a_foreign_proc_lacks_are_left_out(tmp_path, stat, of_the_node, missing):
    (tmp_path / "self").mkdir()
    for name, content in (("self/stat", stat), ("stat", of_the_node)):
        if content is not None:
            (tmp_path / name).write_text(content)
    left_out = {f"process_{name}" for name in (*missing, "open_fds")}
    assert set(process_values(ProcessMetrics())) - set(process_values(ProcessMetrics(tmp_path))) == left_out


def test_a_cached_page_has_the_current_time():
    site = Site(lambda: SNAPSHOT, lambda: (True, ""), ProcessMetrics().render)
    for encoding in ("", "gzip"):
        before = time.time()
        page = body_of(site.respond(Request("GET", "/metrics", "", {"accept-encoding": encoding}))).decode()
        shown = float(re.search(r"^telemetry_time_seconds (\S+)$", page, re.MULTILINE)[1])
        assert before <= shown <= time.time()


def test_a_whole_answer_with_real_process_metrics_is_read_by_every_parser():
    node = Node(kit.big_snapshot(2, 200))
    site = Site(lambda: node.snapshot, lambda: (True, ""), ProcessMetrics().render)
    answers = [
        body_of(site.respond(Request("GET", "/metrics", "", {"accept": accept, "accept-encoding": "gzip"})))
        for accept in ("", OPENMETRICS)
    ]
    assert complaints(answers[0]) == []
    counts = [len(list(read(page.decode()))) for read, page in zip((read_text, read_openmetrics), answers, strict=True)]
    assert counts[0] == counts[1] > 60


@pytest.mark.needs("promtool")
def test_promtool_accepts_a_complete_answer():
    site = Site(lambda: kit.big_snapshot(2, 200), lambda: (True, ""), ProcessMetrics().render)
    page = body_of(site.respond(Request("GET", "/metrics")))
    done = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert re.search(rb"^process_resident_memory_bytes ", page, re.MULTILINE)
