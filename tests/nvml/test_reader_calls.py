"""The cost of each tier: the driver calls on a device, counted; missing features are queried once."""

from pathlib import Path

import pytest

from kits.fake_nvml.library import NO_PERMISSION, NODE, NOT_SUPPORTED, FakeNvml
from kits.fake_nvml.profile import load_profile
from kits.fake_nvml.reader import TIERS, Bench, reading, value
from telemetry_parsers.model import Absent

pytestmark = pytest.mark.needs("cc")


def settled(bench: Bench) -> None:
    for tier in TIERS:
        bench.data(tier)


@pytest.mark.parametrize(
    ("profile", "fast", "counters", "gpm", "slow", "links", "processes", "inventory"),
    [
        ("h100", 8, 1, 1, 17, 55, 5, 23),
        ("h200", 8, 1, 1, 17, 55, 5, 23),
        ("b200", 8, 1, 1, 17, 56, 5, 23),
        ("gb200", 8, 1, 1, 17, 56, 5, 24),
        ("a100", 8, 1, 0, 16, 38, 5, 22),
        ("t4", 8, 1, 0, 15, 0, 5, 23),
        ("vgpu", 5, 0, 0, 5, 0, 3, 7),
        ("wsl", 8, 0, 0, 9, 0, 2, 13),
        ("gb10", 6, 1, 0, 9, 0, 3, 12),
        ("geforce-old", 3, 0, 0, 3, 0, 0, 7),
        ("jetson", 0, 0, 0, 1, 0, 0, 2),
        ("h100-mig", 9, 1, 3, 15, 55, 4, 37),
    ],
)
def test_calls_of_each_tier_on_one_gpu(
    profile: str,
    fast: int,
    counters: int,
    gpm: int,
    slow: int,
    links: int,
    processes: int,
    inventory: int,
    tmp_path: Path,
) -> None:
    with reading(FakeNvml(tmp_path, profile)) as bench:
        settled(bench)
        made = {tier: sum(bench.made(tier).values()) for tier in TIERS}
    assert tuple(made.values()) == (fast, counters, gpm, slow, links, processes, inventory)


def test_unsupported_call_is_asked_once_and_stays_absent(bench: Bench) -> None:
    bench.fake.refuse(0, "nvmlDeviceGetUtilizationRates", NOT_SUPPORTED)
    answers = [bench.gpu()["calls"]["UtilizationRates"] for _ in range(5)]
    assert answers == [{"error": NOT_SUPPORTED}] * 5
    assert bench.fake.calls("nvmlDeviceGetUtilizationRates", 0) == 1
    assert bench.fake.calls("nvmlDeviceGetUtilizationRates", 1) == 5


def test_a_field_that_is_not_supported_leaves_the_batch(bench: Bench) -> None:
    bench.fake.refuse_field(0, 82)
    assert [bench.gpu()["fields"]["memory_temp"] for _ in range(3)] == [{"error": NOT_SUPPORTED}] * 3
    bench.fake.field(0, 82, 44)
    assert bench.gpu()["fields"]["memory_temp"] == {"error": NOT_SUPPORTED}, (
        "asked again before the next initialisation"
    )
    assert bench.gpu(1)["fields"]["memory_temp"] == 61


def test_a_field_for_which_the_whole_call_is_refused_is_left_out(bench: Bench) -> None:
    bench.fake.set_answer(NODE, "hated_field", 82)
    found = [bench.gpu()["fields"] for _ in range(2)]
    assert [fields["memory_temp"] for fields in found] == [{"error": 2}] * 2
    assert [fields["power_average"] for fields in found] == [645310] * 2
    assert bench.made("fast")["nvmlDeviceGetFieldValues"] == 1


def test_a_driver_that_refuses_every_call_for_fields_is_asked_again_after_ten_minutes(bench: Bench) -> None:
    """Until then fields are not read one by one at every poll."""
    bench.fake.fail("nvmlDeviceGetFieldValues", 2, 0)
    bench.gpu()
    assert "nvmlDeviceGetFieldValues" not in bench.made("fast")
    assert value(bench.report(), "power_watts") == 648.92, "by the older call"
    bench.fake.heal()
    bench.move(600)
    assert value(bench.report(), "power_average_watts") == 645.31


def test_links_that_do_not_exist_are_asked_once(tmp_path: Path) -> None:
    """Without the fields the older calls are used; for missing links some drivers return an invalid argument."""
    fake = FakeNvml(tmp_path, "a100", driver="450.80.02")
    fake.fail("nvmlDeviceGetNvLinkErrorCounter", 2, 0)
    with reading(fake) as bench:
        bench.data("links")
        first = fake.calls("nvmlDeviceGetNvLinkErrorCounter", 0)
        bench.data("links")
    assert fake.calls("nvmlDeviceGetNvLinkErrorCounter", 0) == first > 0


@pytest.mark.parametrize("code", [21, 999])
@pytest.mark.parametrize("call", ["nvmlDeviceGetFieldValues", "nvmlDeviceGetNvLinkState"])
def test_links_that_could_not_be_counted_are_counted_the_next_time(tmp_path: Path, call: str, code: int) -> None:
    fake = FakeNvml(tmp_path, "a100")
    fake.refuse_field(0, 91)
    fake.fail(call, code, 0, times=1, after=0 if call == "nvmlDeviceGetFieldValues" else 5)
    with reading(fake) as bench:
        found = [value(bench.report("links"), "link_up", "11") for _ in range(2)]
    assert found == [Absent.NOT_REPORTED, 1.0]


def test_forbidden_call_is_asked_again_after_ten_minutes(bench: Bench) -> None:
    bench.fake.fail("nvmlDeviceGetUtilizationRates", NO_PERMISSION, 0)
    for _ in range(3):
        assert bench.gpu()["calls"]["UtilizationRates"] == {"error": NO_PERMISSION}
    assert bench.fake.calls("nvmlDeviceGetUtilizationRates", 0) == 1
    bench.fake.heal()
    bench.move(599)
    assert bench.gpu()["calls"]["UtilizationRates"] == {"error": NO_PERMISSION}
    bench.move(1)
    assert bench.gpu()["calls"]["UtilizationRates"] == {"gpu": 98, "memory": 41}


def test_everything_is_asked_again_after_an_initialisation(bench: Bench) -> None:
    bench.fake.refuse(0, "nvmlDeviceGetUtilizationRates", NOT_SUPPORTED)
    bench.data()
    bench.fake.set_answer(0, "nvmlDeviceGetUtilizationRates", 11, 12)
    bench.move(61)
    bench.fake.fail("nvmlDeviceGetPerformanceState", 1, 0, times=1)
    assert bench.gpu()["calls"]["UtilizationRates"] == {"gpu": 11, "memory": 12}
    assert bench.fake.calls("nvmlInitWithFlags") == 2


def test_exchanged_handles_are_noticed_at_the_next_slow_poll(tmp_path: Path) -> None:
    """The handles of two GPUs are exchanged: a minute later all readings belong to the right GPU."""
    fake = FakeNvml(tmp_path, load_profile("h100").with_gpus(2))
    with reading(fake) as bench:
        settled(bench)
        first, second = (bench.gpu(index)["uuid"] for index in (0, 1))
        fake.set_answer(0, "nvmlDeviceGetUUID", second)
        fake.set_answer(1, "nvmlDeviceGetUUID", first)
        bench.move(60)
        assert [gpu["uuid"] for gpu in bench.data("slow")["gpus"]] == [second, first]
        assert [bench.gpu(index)["uuid"] for index in (0, 1)] == [second, first]
        assert fake.calls("nvmlInitWithFlags") == 2


def test_handles_that_are_exchanged_again_and_again_are_no_loop(tmp_path: Path) -> None:
    fake = FakeNvml(tmp_path, "h100")
    with reading(fake) as bench:
        settled(bench)
        for name in ("GPU-0000000a", "GPU-0000000b"):
            fake.set_answer(0, "nvmlDeviceGetUUID", name)
            refused = bench.refusal("slow")
        assert (refused.state, "another GPU" in refused.text) == ("failed", True)
        assert fake.calls("nvmlInitWithFlags") == 1
        bench.move(5)
        assert bench.gpu()["uuid"] == "GPU-0000000b"
