"""The documentation of metrics is the catalogue's, whole and up to date."""

import subprocess
import sys
from pathlib import Path

from telemetry_exporters.documents.metrics_doc import metrics_list, metrics_markdown
from telemetry_parsers.metrics import CATALOGUE
from telemetry_parsers.model import Metric

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def test_the_page_in_docs_is_the_generated_one():
    assert PAGE.read_text(encoding="utf-8") == metrics_markdown(), (
        "run: python -m telemetry_exporters.documents.metrics_doc > docs/metrics.md"
    )


def test_the_command_that_writes_the_page_prints_it():
    done = subprocess.run(
        [sys.executable, "-m", "telemetry_exporters.documents.metrics_doc"], capture_output=True, check=True
    )
    assert done.stdout.decode() == metrics_markdown()


def test_the_list_has_a_line_for_each_metric_and_its_columns_line_up():
    extra = Metric("accelerator_acme_tank_ratio", "gauge", "ratio", "Level of the tank.", 0, 1, "tank")
    lines = metrics_list((extra,)).splitlines()
    assert [line.split()[0] for line in lines] == [metric.name for metric in (*CATALOGUE, extra)]
    assert lines[-1].split()[1:4] == ["gauge", "ratio", "tank"]
    assert len({line.index(metric.help) for line, metric in zip(lines, (*CATALOGUE, extra), strict=True)}) == 1
