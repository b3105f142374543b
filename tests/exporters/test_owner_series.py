"""What a page may show of owners besides their own metrics: processes, and labels of the owner on the series of its card."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kits import snapshots as kit
from kits.page_lint import complaints
from telemetry_exporters.prometheus.families import OwnerSeries
from telemetry_exporters.prometheus.renderer import Renderer, text_page
from telemetry_parsers.metrics import CATALOGUE, OWNER_LABELS

PROCESSES = OwnerSeries(process_metrics=True)
INLINE = OwnerSeries(inline_labels=("user", "job_id"))


def test_processes_are_told_where_that_was_asked_for_and_gone_with_the_next_page():
    snapshot = kit.snapshot(kit.shared_device())
    assert b"accelerator_process_memory_bytes" not in text_page(snapshot)
    renderer = Renderer(of_owners=PROCESSES)
    assert b'pid="4711"' in renderer.text(snapshot)
    assert b'pid="4711"' not in renderer.text(kit.snapshot(kit.full_device()))


def test_the_labels_go_with_the_owner():
    renderer = Renderer(of_owners=INLINE)
    owned, free = kit.full_device(allocations=(kit.allocation(),)), kit.full_device()
    pages = [renderer.text(kit.snapshot(device)) for device in (owned, free, owned)]
    assert [b'accelerator_power_watts{device="0",id="GPU-00000000",job_id="1234"' in page for page in pages] == [
        True,
        False,
        True,
    ]


def test_no_metric_of_a_device_has_a_label_of_an_owner_already():
    own = {metric.label for metric in CATALOGUE if metric.scope == "device"}
    assert not own.intersection(OWNER_LABELS["accelerator_allocation_seconds_total"])


@given(
    snapshot=kit.snapshots(),
    inline=st.lists(st.sampled_from(OWNER_LABELS["accelerator_allocation_seconds_total"]), unique=True),
)
@settings(max_examples=20)
def test_of_any_snapshot_the_page_stays_whole(snapshot, inline):
    page = text_page(snapshot, of_owners=OwnerSeries(process_metrics=True, inline_labels=tuple(inline)))
    allowed = [one for one in complaints(page) if ": labels [" not in one and "more than one label" not in one]
    assert allowed == []
