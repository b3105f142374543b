"""Every scraper gets the syntax that it requests; other clients get plain text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry_daemon.site.negotiation import accepts_gzip, choose_format
from telemetry_exporters.prometheus.renderer import Syntax

TEXT = "text/plain; version=0.0.4; charset=utf-8"
TEXT_1 = "text/plain; version=1.0.0; charset=utf-8; escaping="
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping="
OLD_OPENMETRICS = "application/openmetrics-text; version=0.0.1; charset=utf-8"

PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
PROTOBUF_FIRST = (
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,"
    "application/openmetrics-text;version=1.0.0;escaping=underscores;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
)
VICTORIA_METRICS = "text/plain;version=0.0.4;q=1,*/*;q=0.1"
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        pytest.param("", TEXT, id="none"),
        pytest.param("*/*", TEXT, id="curl"),
        pytest.param(PROMETHEUS_2, OPENMETRICS + "underscores", id="Prometheus 2.42"),
        pytest.param(PROMETHEUS_3, OPENMETRICS + "allow-utf-8", id="Prometheus 3"),
        pytest.param(PROTOBUF_FIRST, OPENMETRICS + "underscores", id="protobuf first"),
        pytest.param(VICTORIA_METRICS, TEXT, id="VictoriaMetrics"),
        pytest.param(BROWSER, TEXT, id="browser"),
        ("text/plain", TEXT),
        ("text/*", TEXT),
        ("TEXT/PLAIN;VERSION=0.0.4", TEXT),
        ("application/openmetrics-text", OPENMETRICS + "underscores"),
        ("application/*", OPENMETRICS + "underscores"),
        ("application/openmetrics-text; version=0.0.1", OLD_OPENMETRICS),
        ('application/openmetrics-text; version="1.0.0"', OPENMETRICS + "underscores"),
        ("application/openmetrics-text; version=2.0.0", TEXT),
        ("application/openmetrics-text; version=2.0.0, text/plain;q=0.1", TEXT),
        ("application/openmetrics-text;version=1.0.0;escaping=dots", OPENMETRICS + "underscores"),
        ("application/openmetrics-text;version=1.0.0;escaping=x\r\nevil", OPENMETRICS + "underscores"),
        ("text/plain;version=1.0.0;escaping=allow-utf-8", TEXT_1 + "allow-utf-8"),
        ("text/plain;version=1.0.0, text/plain;version=0.0.4;q=0.9", TEXT_1 + "underscores"),
        ("text/plain, application/openmetrics-text", TEXT),
        ("application/openmetrics-text, text/plain", OPENMETRICS + "underscores"),
        ("text/plain;q=0.4, application/openmetrics-text;q=0.5", OPENMETRICS + "underscores"),
        ("text/plain;q=0.5, application/openmetrics-text;q=0.4", TEXT),
        ("application/openmetrics-text;q=0, */*", TEXT),
        ("text/plain;q=0, */*;q=0.1", OPENMETRICS + "underscores"),
        ("application/json", TEXT),
        ("text/plain;q=0", TEXT),
        ("*/*;q=0", TEXT),
        ("text/plain;q=high, application/openmetrics-text;q=0.1", OPENMETRICS + "underscores"),
        (", ;q=1, text/plain", TEXT),
    ],
)
def test_content_type_by_accept_header(accept, content_type):
    syntax, found = choose_format(accept)
    assert found == content_type
    assert syntax is (Syntax.OPENMETRICS if "openmetrics" in content_type else Syntax.TEXT)


@pytest.mark.parametrize(
    ("accept_encoding", "wanted"),
    [
        ("", False),
        ("gzip", True),
        ("GZIP", True),
        ("x-gzip", True),
        ("gzip, deflate, br", True),
        ("deflate, br", False),
        ("identity", False),
        ("gzip;q=0", False),
        ("gzip; q=0.0", False),
        ("gzip;q=0.5", True),
        ("gzip;q=0.5, identity;q=1", False),
        ("gzip, identity", True),
        ("*", True),
        ("*;q=0", False),
        ("gzip;q=0, *", False),
        ("identity;q=0, *;q=0.1", True),
        ("gzip;q=nan", False),
    ],
)
def test_gzip_by_accept_encoding_header(accept_encoding, wanted):
    assert accepts_gzip(accept_encoding) is wanted


@given(st.text())
def test_any_header_gets_an_answer_that_we_have(header):
    syntax, content_type = choose_format(header)
    assert isinstance(syntax, Syntax)
    assert content_type.isprintable()
    assert accepts_gzip(header) in (True, False)


def test_a_header_of_thousands_of_elements_is_read_to_a_limit():
    assert choose_format(", ".join(["a/b"] * 5000 + ["application/openmetrics-text"]))[0] is Syntax.TEXT
    assert choose_format(", ".join(["application/openmetrics-text"] + ["a/b"] * 5000))[0] is Syntax.OPENMETRICS
