"""Peaks beside the readings of devices: on the page and in the document, whole cards and partitions."""

import pytest

from kits import snapshots as kit
from telemetry_exporters.documents import snapshot_json
from telemetry_exporters.prometheus.renderer import text_page
from telemetry_parsers.card_peaks import PeakRates, Rate
from telemetry_parsers.merge.peaks import FLOPS, FLOPS_PER_CYCLE, MEMORY, PeakFinder

H100, MI300X = "NVIDIA H100 80GB HBM3", "AMD Instinct MI300X"
GIB = 2.0**30


def peaks_of(device, label="bf16"):
    """Return FLOP/s, FLOPs per cycle, and bytes per second of a device."""
    values = {(reading.metric, reading.label): reading.value for reading in device.readings}
    return values.get((FLOPS, label)), values.get((FLOPS_PER_CYCLE, label)), values.get((MEMORY, ""))


def peaks(*devices, **settings):
    return [peaks_of(device) for device in PeakFinder(**settings).with_peaks(devices)]


def card(*readings, model=H100, **more):
    return kit.device(0, *readings, model=model, **more)


def part(number, units, profile, **more):
    """An instance of device 0."""
    name = f"{H100} MIG {profile}"
    facts = {"facts": (("profile", profile),), "parent": "GPU-00000000", "partition": str(number)} | more
    readings = [] if units is None else [kit.reading("compute_units", units)]
    return kit.device(number, *readings, model=name, **facts)


def test_known_card_has_its_peaks_and_their_origin() -> None:
    text = text_page(kit.snapshot(*PeakFinder().with_peaks((card(),)))).decode()
    lines = [line for line in text.splitlines() if "peak" in line and not line.startswith("#")]
    assert [line.rsplit(" ", 1)[1] for line in lines] == ["1.0", "9.894e+14", "3.35e+12"]
    info, flops, memory = lines
    assert 'peak_origin="vendor"' in info
    assert 'dtype="bf16"' in flops
    assert memory.startswith("accelerator_peak_memory_bytes_per_second{")
    assert f"{132 * 4096:.1f}" in next(line for line in text.splitlines() if "flops_per_cycle{" in line)


def test_the_document_has_them_like_any_reading() -> None:
    (device,) = snapshot_json.document(kit.snapshot(*PeakFinder().with_peaks((card(),))))["devices"]
    assert device["readings"]["peak_flops"] == {"bf16": 9.894e14}
    assert device["origin"]["peak_flops"] == "peaks"


@pytest.mark.parametrize("device", [card(model="MTT S5000"), card(up=False), card(up=None)])
def test_unknown_or_missing_card_stays_as_it_is(device) -> None:
    assert PeakFinder().with_peaks((device,)) == (device,)


def test_further_data_types_are_shown_where_the_card_has_them() -> None:
    (device,) = PeakFinder(dtypes=("fp8", "fp4", "bf16")).with_peaks((card(),))
    assert [reading.label for reading in device.readings if reading.metric == FLOPS] == ["bf16", "fp8"]


def test_current_model_name_decides() -> None:
    assert peaks(card(model="NVIDIA H100 PCIe", current_model=H100)) == peaks(card())


def test_a_configured_card_is_added_or_replaces_the_row() -> None:
    mine = PeakRates((Rate("bf16", 5e14, None),), 1.6e12, "configured")
    assert peaks(card(model="MTT S5000"), configured={"MTT S5000": mine}) == [(5e14, None, 1.6e12)]
    assert peaks(card(), configured={H100: mine}) == [(5e14, None, 1.6e12)]


def test_a_configured_card_gives_its_partitions_their_part() -> None:
    mine = PeakRates((Rate("bf16", 8e14, 4e5),), 4e12, "measured")
    first = amd(kit.reading("compute_units", 38.0), compute_partition="CPX")
    other = kit.device(
        1, kit.reading("compute_units", 38.0), vendor="amd", model=MI300X, parent=first.id, partition="1"
    )
    assert peaks(first, other, configured={MI300X: mine}) == [(1e14, 5e4, None)] * 2
    assert peaks(amd(kit.reading("compute_units", 80.0)), configured={MI300X: mine}) == [(8e14, 4e5, 4e12)]


def test_a_configured_card_without_numbers_has_no_peak() -> None:
    device = card()
    assert PeakFinder({H100: PeakRates((), None, "configured")}).with_peaks((device,)) == (device,)


def test_configured_partition_has_its_own_peaks() -> None:
    mine = PeakRates((Rate("bf16", 1e14, None),), None, "configured")
    instance = part(1, 60.0, "3g.40gb")
    assert peaks(card(), instance, configured={instance.model: mine})[1] == (1e14, None, None)


@pytest.mark.parametrize(
    ("units", "profile", "flops", "memory"),
    [
        (16.0, "1g.10gb", 989.4e12 * 16 / 132, 3.35e12 / 8),
        (16.0, "1g.10gb+me", 989.4e12 * 16 / 132, 3.35e12 / 8),
        (16.0, "1g.20gb", 989.4e12 * 16 / 132, 3.35e12 / 4),
        (60.0, "3g.40gb", 989.4e12 * 60 / 132, 3.35e12 / 2),
        (132.0, "7g.80gb", 989.4e12, 3.35e12),
        # It shares its memory with other compute instances.
        (16.0, "1c.3g.40gb", 989.4e12 * 16 / 132, None),
        (16.0, "", 989.4e12 * 16 / 132, None),
    ],
)
def test_an_instance_has_its_part(units, profile, flops, memory) -> None:
    whole = card(kit.reading("memory_total_bytes", 81559 * 2.0**20))
    got_flops, per_cycle, got_memory = peaks(whole, part(1, units, profile))[1]
    assert got_flops == pytest.approx(flops)
    assert per_cycle == pytest.approx(units * 4096)
    assert got_memory == (None if memory is None else pytest.approx(memory))


@pytest.mark.parametrize("units", [None, 133.0])
def test_an_instance_whose_part_is_unknown_has_none(units) -> None:
    whole = card(kit.reading("memory_total_bytes", 81559 * 2.0**20))
    assert peaks(whole, part(1, units, "3g.40gb"))[1] == (None, None, None)
    assert peaks(part(1, 60.0, "3g.40gb")) == [(None, None, None)]


def test_memory_slices_of_every_size() -> None:
    for model, total, profile, share in [
        ("NVIDIA A100-SXM4-40GB", 40536 * 2.0**20, "1g.5gb", 1 / 8),
        ("NVIDIA A100-SXM4-40GB", 40536 * 2.0**20, "3g.20gb", 4 / 8),
        ("NVIDIA A30", 24 * GIB, "1g.6gb", 2 / 8),
        ("NVIDIA H200", 143771 * 2.0**20, "1g.18gb", 1 / 8),
        ("NVIDIA H200", 143771 * 2.0**20, "3g.71gb", 4 / 8),
        ("NVIDIA H200", 143771 * 2.0**20, "7g.141gb", 1.0),
        ("NVIDIA GH200 480GB", 97871 * 2.0**20, "1g.24gb", 2 / 8),
    ]:
        whole = card(kit.reading("memory_total_bytes", total), model=model)
        (_, _, memory), (_, _, of_part) = peaks(whole, part(1, 14.0, profile))
        assert of_part == pytest.approx(memory * share)


def amd(*readings, **facts):
    return kit.device(
        0, *readings, vendor="amd", model=MI300X, facts=tuple({"chip_id": "0x74a1", **facts}.items()), uuid="0309"
    )


def test_the_partitions_of_an_amd_card_have_their_compute_units() -> None:
    first = amd(kit.reading("compute_units", 38.0), compute_partition="CPX", memory_partition="NPS1")
    other = kit.device(1, kit.reading("compute_units", 38.0), vendor="amd", model="", parent=first.id, partition="1")
    eighth = (pytest.approx(1307.4e12 / 8), 38 * 2048.0, None)
    assert peaks(first, other) == [eighth, eighth]


def test_partitioned_amd_card_without_units_has_no_peak() -> None:
    assert peaks(amd(compute_partition="CPX")) == [(None, None, None)]


@pytest.mark.parametrize("mode", ["SPX", "N/A"])
def test_unpartitioned_amd_card_has_the_whole_peak(mode: str) -> None:
    whole = (1307.4e12, 304 * 2048.0, 5.3e12)
    assert peaks(amd(compute_partition=mode)) == [whole]
    assert peaks(amd(kit.reading("compute_units", 304.0))) == [whole]


def test_card_with_other_units_than_its_model_has_no_peak() -> None:
    assert peaks(amd(kit.reading("compute_units", 80.0))) == [(None, None, None)]


def test_a_virtual_function_is_no_whole_card() -> None:
    assert peaks(amd(chip_id="0x74b5")) == [(None, None, None)]


def test_peaks_are_found_once_the_units_are_reported() -> None:
    finder = PeakFinder()
    assert peaks_of(finder.with_peaks((amd(compute_partition="CPX"),))[0]) == (None, None, None)
    later = amd(kit.reading("compute_units", 38.0), compute_partition="CPX")
    assert peaks_of(finder.with_peaks((later,))[0])[0] == pytest.approx(1307.4e12 / 8)
