"""The page for people: it shows everything that matters, and texts of tools cannot break out of it."""

import base64
import gzip
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser
from urllib.parse import urljoin

import pytest
from hypothesis import given, settings

from kits import snapshots as kit
from telemetry_daemon.site.page_files import script, style
from telemetry_daemon.site.pages import Links, device_page, page
from telemetry_daemon.site.routes import Site
from telemetry_daemon.version import __version__
from telemetry_daemon.web.messages import Request
from telemetry_parsers.maintenance import Maintenance
from telemetry_parsers.model import Absent, Problem

LINKS = Links("/metrics", "/api/v1/snapshot", "/api/v1/history", "/healthz", "/readyz")
VOID = {"meta", "link", "br"}
MAX_BYTES, MAX_PACKED_BYTES, MAX_LINE_LENGTH = 64_000, 20_000, 140
ELEMENTS = (
    "html head title style body header div h1 h2 p span small strong code a main noscript script dl dt dd ul li table "
    "thead tbody tr th td svg rect footer"
)
ALLOWED = VOID | set(ELEMENTS.split())


class Page(HTMLParser):
    """Parses a page into elements, texts and links; fails on unclosed elements."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.links, self.texts, self.attributes = [], [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append(tag)
        self.attributes += [name for name, _ in attributes]
        self.links += [value for name, value in attributes if name in ("href", "src", "action")]
        if tag not in VOID and not (self.get_starttag_text() or "").endswith("/>"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.texts.append(data.strip())

    @property
    def text(self):
        return " ".join(filter(None, self.texts))


@given(kit.snapshots())
@settings(max_examples=25, deadline=None)
def test_any_page_is_well_formed_and_has_only_elements_of_ours(snapshot):
    for html in (page(snapshot, LINKS), *(device_page(snapshot, device.id, LINKS) for device in snapshot.devices[:1])):
        shown = Page(html)
        assert set(shown.elements) <= ALLOWED
        assert not any(name.startswith("on") or name == "style" for name in shown.attributes)


@pytest.mark.parametrize("evil", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "' onload='x", "&lt;"])
def test_texts_of_tools_are_escaped(evil):
    snapshot = kit.snapshot(
        kit.device(0, model=evil, current_model=evil, id=evil, vendor=evil),
        kit.device(1, model=evil, id=evil + "2", up=False),
        hostname=evil,
        sources=(
            kit.source(evil, "failed", reason="timeout", detail=evil, version=evil, problems=(Problem(evil, evil),)),
        ),
    )
    shown = Page(page(snapshot, LINKS))
    assert set(shown.elements) <= ALLOWED
    assert shown.elements.count("script") == 1
    assert shown.text.count(evil) > 8
    assert evil in Page(device_page(snapshot, evil, LINKS)).text


@pytest.mark.parametrize("seen_at", ["http://node7:19820", "https://proxy/gpu/node7"])
def test_page_loads_nothing_from_elsewhere_also_behind_a_proxy_path(seen_at):
    shown = Page(page(kit.snapshot(kit.full_device()), LINKS))
    assert [urljoin(f"{seen_at}/", link) for link in shown.links if not link.startswith("data:")] == [
        f"{seen_at}/#main",
        f"{seen_at}/",
        f"{seen_at}/?device=GPU-00000000",
        seen_at + LINKS.metrics,
        seen_at + LINKS.snapshot,
        seen_at + LINKS.history,
        seen_at + LINKS.health,
        seen_at + LINKS.readiness,
    ]


def test_policy_allows_only_the_script_and_style_of_the_page():
    snapshot = kit.snapshot(kit.full_device())
    site = Site(lambda: snapshot, lambda: (True, ""), lambda syntax: b"")
    response = site.respond(Request("GET", "/"))
    (style,), (script,) = (
        re.findall(f"<{tag}>(.*?)</{tag}>", b"".join(response.body).decode(), re.DOTALL) for tag in ("style", "script")
    )
    policy = dict(part.strip().split(" ", 1) for part in dict(response.headers)["Content-Security-Policy"].split(";"))
    assert policy == {
        "default-src": "'none'",
        "script-src": f"'sha256-{digest(script)}'",
        "style-src": f"'sha256-{digest(style)}'",
        "connect-src": "'self'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    assert response.content_type == "text/html; charset=utf-8"
    assert dict(response.headers)["X-Content-Type-Options"] == "nosniff"


def digest(text):
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def test_script_and_style_are_small_and_written_for_people():
    both = (script() + style()).encode()
    assert len(both) <= MAX_BYTES
    assert len(gzip.compress(both, 6)) <= MAX_PACKED_BYTES
    assert [line for line in (script() + style()).splitlines() if len(line) > MAX_LINE_LENGTH] == []


def test_a_device_and_a_source_are_shown_with_all_that_matters():
    snapshot = kit.snapshot(kit.full_device(), sources=(kit.source("nvml", version="550.54.15"),))
    text = Page(page(snapshot, LINKS)).text
    for wanted in (
        "node17",
        "1 × NVIDIA H100 80GB HBM3",
        "2026-01-01 00:00:00 UTC",
        "nvidia 0 GPU-00000000 ok NVIDIA H100 80GB HBM3 41 °C 112 W of 700 W 2 MiB of 80 GiB 0 %",
        "nvml ok 550.54.15 readings 2 s ago, took 0.25 s",
        f"device telemetry {__version__}",
    ):
        assert wanted in text
    assert "Troubles" not in text


def test_problems_are_above_the_devices_with_their_remedy():
    snapshot = kit.snapshot(
        kit.full_device(),
        kit.device(1, up=False),
        sources=(kit.source("hy-smi", "failed", reason="no_permission", detail="/dev/kfd"),),
    )
    text = Page(page(snapshot, LINKS)).text
    above, _ = text.split(" Devices Device ")
    assert "nvidia 1 NVIDIA H100 80GB HBM3 (GPU-00000001) : lost" in above
    assert "telemetry forget GPU-00000001" in above
    assert "hy-smi : failed: no permission (/dev/kfd) let the service's user read" in above


def test_a_devices_own_page_has_all_its_readings_or_their_reasons():
    device = kit.device(
        0,
        kit.reading("fan_ratio", 0.42),
        kit.reading("link_up", 0.0, "3"),
        kit.reading("power_watts", Absent.NOT_SUPPORTED),
    )
    site = Site(lambda: kit.snapshot(device, kit.device(1)), lambda: (True, ""), lambda syntax: b"")
    response = site.respond(Request("GET", "/", "device=GPU-00000000"))
    text = Page(b"".join(response.body).decode()).text
    assert response.status == 200
    for wanted in ("nvidia 0", "id GPU-00000000", "fan 42 % nvml", "link up 3 0 nvml", "power – not supported (nvml)"):
        assert wanted in text
    assert "GPU-00000001" not in text


@pytest.mark.parametrize("wanted", ["GPU-7", "", "<b>", "%00"])
def test_a_device_that_is_not_there_has_no_page(wanted):
    site = Site(lambda: kit.snapshot(kit.full_device()), lambda: (True, ""), lambda syntax: b"")
    assert site.respond(Request("GET", "/", f"device={wanted}")).status == (404 if wanted else 200)


@pytest.mark.parametrize(
    ("value", "why"),
    [(None, "no source reports it"), (Absent.NOT_PERMITTED, "not permitted"), (Absent.NOT_SUPPORTED, "not supported")],
)
def test_absent_value_has_its_reason_as_a_tooltip(value, why):
    readings = () if value is None else (kit.reading("utilization_ratio", value),)
    html = page(kit.snapshot(kit.device(0, *readings)), LINKS)
    assert f'data-heading="Utilization"><span class="absent" title="{why}">–</span></td>' in html


@pytest.mark.parametrize(
    ("readings", "width"),
    [
        ((kit.reading("utilization_ratio", 0.0),), "0.0"),
        ((kit.reading("utilization_ratio", 0.5),), "50.0"),
        ((kit.reading("power_watts", 900.0), kit.reading("power_cap_watts", 700.0)), "100.0"),
        ((kit.reading("memory_used_bytes", 1.0), kit.reading("memory_total_bytes", 4.0)), "25.0"),
        ((kit.reading("power_watts", 100.0),), None),
        ((kit.reading("power_watts", 100.0), kit.reading("power_cap_watts", 0.0)), None),
    ],
)
def test_a_bar_is_as_long_as_the_share(readings, width):
    html = page(kit.snapshot(kit.device(0, *readings)), LINKS)
    assert re.findall(r'<rect width="([0-9.]+)" height="4"/>', html) == ([width] if width else [])


@pytest.mark.parametrize(
    ("devices", "wanted"),
    [
        ((), ""),
        ((kit.full_device(0), kit.full_device(1)), "Devices up 2 Hottest 41 °C Power 225 W Memory used 4 MiB"),
        ((kit.full_device(0), kit.device(1)), "Devices up 2 Hottest 41 °C from 1 of 2 devices Power 112 W from 1 of 2"),
        ((kit.full_device(0), kit.device(1, up=False)), "Devices up 1 of 2 Hottest 41 °C Power 112 W Memory used"),
        (
            (kit.full_device(0), kit.full_device(1, parent="GPU-00000000", partition="0")),
            "Devices up 1 Hottest 41 °C Power 112 W Memory used 2 MiB",
        ),
    ],
)
def test_node_figures_count_whole_devices_and_name_missing_ones(devices, wanted):
    text = Page(page(kit.snapshot(*devices), LINKS)).text
    assert wanted in text
    assert ("Devices up" in text) == bool(wanted)


@pytest.mark.parametrize(
    ("maintenance", "notes"),
    [
        (Maintenance(3600.0, "<b>new\x1b[1m fans"), ["until 2026-01-01 01:00:00 UTC: &lt;b&gt;new\ufffd[1m fans"]),
        (Maintenance(3600.0), ["until 2026-01-01 01:00:00 UTC."]),
        (Maintenance(-1.0, "over"), []),
        (None, []),
    ],
)
def test_maintenance_is_shown_with_its_end_and_reason(maintenance, notes):
    html = page(kit.snapshot(kit.full_device(), maintenance=maintenance), LINKS)
    assert re.findall('<p class="note">In maintenance (.*?)</p>', html) == notes


@pytest.mark.parametrize(("simulated", "shown"), [(True, True), (False, False)])
def test_simulated_devices_carry_a_banner(simulated, shown):
    html = page(kit.snapshot(kit.full_device(simulated=simulated)), LINKS)
    assert ('<p class="note">Simulated: these devices do not exist.</p>' in html) == shown


def test_empty_node_is_shown_as_such():
    text = Page(page(replace(kit.snapshot(), hostname="bare"), LINKS)).text
    # This does not mean that there is no device: sources may have failed, be released, or not have answered yet.
    assert "No devices reported." in text
    assert "No source has been polled yet." in text
