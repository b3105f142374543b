"""The file for node_exporter's collector: complete and current, or missing."""

import threading
from pathlib import Path

import pytest

from kits.files import files_of_at_most
from telemetry_daemon.service.textfile_job import TextfileJob
from telemetry_exporters.prometheus.renderer import text_page
from telemetry_parsers.model import MergedDevice, Snapshot

CARD = MergedDevice("acme", 0, "ACME-1", "0", "A1")


class Bench:
    def __init__(self, folder: Path) -> None:
        self.path = folder / "telemetry.prom"
        self.cards = (CARD,)
        self.job = TextfileJob(str(self.path), self.snapshot, {})

    def snapshot(self) -> Snapshot:
        return Snapshot("node", 1e9, 0.0, 9.0, devices=self.cards)

    def ups(self) -> int:
        return self.path.read_text().count("\naccelerator_up{")


def test_the_file_is_replaced_whole_and_may_be_read_by_all(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.job.run()
    assert bench.ups() == 1
    assert bench.path.read_bytes() == text_page(bench.snapshot())
    bench.cards = ()
    with bench.path.open() as before:
        bench.job.run()
        assert "accelerator_up{" in before.read(), "who reads the old one reads it to its end"
    assert bench.ups() == 0
    assert bench.path.stat().st_mode & 0o777 == 0o644
    assert list(tmp_path.iterdir()) == [bench.path]


def test_file_that_cannot_be_replaced_is_removed_and_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise the collector would expose old numbers while the disk is full."""
    bench = Bench(tmp_path)
    bench.job.run()
    with files_of_at_most(10):
        for _ in range(3):
            bench.job.run()
    assert list(tmp_path.iterdir()) == []
    assert [record.message for record in caplog.records] == ["cannot write the textfile"]
    bench.job.run()
    assert bench.ups() == 1


def test_file_is_removed_at_the_end_for_good(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.job.run()
    bench.job.end()
    bench.job.run()
    assert list(tmp_path.iterdir()) == []
    bench.job.end()


def test_the_end_does_not_wait_for_a_write_that_hangs(tmp_path: Path) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def hang() -> Snapshot:
        begun.set()
        go_on.wait(30)
        return Snapshot("node", 1e9, 0.0, 9.0)

    job = TextfileJob(str(tmp_path / "telemetry.prom"), hang, {})
    writer = threading.Thread(target=job.run)
    writer.start()
    assert begun.wait(30)
    job.end()
    assert writer.is_alive()
    go_on.set()
    writer.join(30)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_done_where_no_file_is_wanted() -> None:
    job = TextfileJob("", lambda: Snapshot("node", 1e9, 0.0, 9.0), {})
    job.end()
    assert not job.is_configured
