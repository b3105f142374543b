"""The recorder: how it aggregates, nests sections, never delays the loop, and reads energy from the counter."""

import queue
import time
from collections.abc import Iterator
from datetime import datetime, timezone

import pytest

from device_telemetry import Device, Node, NotReachableError, Recorder, UnknownNameError
from device_telemetry.sections import Sample, Section, add_period


def device(number: int, vendor: str = "nvidia", core: float | None = None, **readings: float) -> Device:
    name = f"{vendor}-{number}"
    sensors = {} if core is None else {"temperature_celsius": {"core": core, "memory": 99.0}}
    return Device(vendor, number, name, str(number), "M", name, None, True, None, {**readings, **sensors}, {})


def sample(moment: float, watts: float, joules: float | None = None) -> Sample:
    values = {"power_watts": watts} if joules is None else {"power_watts": watts, "energy_joules_total": joules}
    return Sample(moment, {"0": values})


def test_section_has_means_extremes_and_energy() -> None:
    section = Section()
    section.enter(10.0)
    add_period([section], sample(8.0, 100.0, 0.0), sample(12.0, 200.0, 600.0))
    section.leave(13.0)
    add_period([section], sample(12.0, 200.0, 600.0), sample(16.0, 200.0, 1400.0))
    numbers = section.results()
    assert numbers["seconds"] == 3.0
    assert numbers["0/power_watts/mean"] == pytest.approx((150 * 2 + 200 * 1) / 3)
    assert (numbers["0/power_watts/min"], numbers["0/power_watts/max"]) == (100.0, 200.0)
    assert numbers["energy_joules"] == pytest.approx(300 + 200)
    add_period([section], sample(16.0, 900.0, 1400.0), sample(20.0, 900.0, 9999.0))
    assert section.results() == numbers


def test_energy_without_a_valid_counter_is_estimated() -> None:
    for first, then in (sample(0.0, 100.0), sample(10.0, 300.0)), (sample(0.0, 200.0, 5e3), sample(10.0, 200.0, 3.0)):
        section = Section()
        section.enter(0.0)
        add_period([section], first, then)
        assert section.results()["0/energy_estimated_joules"] == 2000.0
        assert "0/energy_joules" not in section.results()


def test_section_time_is_the_sum_of_its_spans() -> None:
    section, last = Section(), Sample(0.0, {})
    for begun, ended in ((1.0, 2.0), (2.5, 2.5), (3.0, 7.0), (8.0, 9.0), (9.0, 9.5)):
        section.enter(begun)
        if begun == 3.0:  # two samples while it goes on
            for moment in (4.0, 6.0):
                add_period([section], last, last := Sample(moment, {}))
        section.leave(ended)
    add_period([section], last, Sample(10.0, {}))
    assert section.seconds == pytest.approx(1.0 + 4.0 + 1.0 + 0.5)


class Fed:
    """A source of nodes that a test passes one by one."""

    def __init__(self) -> None:
        self.waiting: queue.Queue[Node | Exception] = queue.Queue()

    def put(self, *devices: Device) -> None:
        self.waiting.put(Node("n", datetime.now(timezone.utc), devices, ()))

    def __call__(self) -> Iterator[Node]:
        while True:
            node = self.waiting.get(timeout=30)
            if isinstance(node, Exception):
                raise node
            yield node


class Steady:
    """A source that repeats a node with a running counter as fast as it is read."""

    def __init__(self, *devices: Device) -> None:
        self.devices = devices

    def __call__(self) -> Iterator[Node]:
        while True:
            time.sleep(0.01)
            yield Node("n", datetime.now(timezone.utc), self.devices, ())


def test_sections_nest_and_wrap_functions() -> None:
    with Recorder("all", source=Steady(device(0, power_watts=250.0, core=60.0))) as recorder:
        time.sleep(0.05)

        @recorder("evaluate")
        def evaluate() -> int:
            time.sleep(0.05)
            return 7

        with recorder("epoch"):
            with recorder("step"):
                time.sleep(0.05)
            assert evaluate() == 7
        evaluate()
    assert set(recorder.names) == {"", "epoch", "epoch/step", "epoch/evaluate", "evaluate"}
    numbers = recorder.results("epoch/step")
    assert numbers["0/power_watts/mean"] == pytest.approx(250.0)
    assert numbers["0/temperature_celsius/max"] == 60.0
    assert 0.04 < numbers["seconds"] < recorder.results("epoch")["seconds"] < recorder.results()["seconds"]
    assert all(isinstance(value, float) for value in recorder.results().values())
    with pytest.raises(KeyError, match=r"^no section 'epoc' has begun; did you mean epoch"):
        recorder.results("epoc")
    with pytest.raises(UnknownNameError, match=r"call start\(\) first"):
        Recorder("all").results()


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [("all", {"ascend:0", "nvidia:0", "nvidia:1"}), ([1], {"1"}), (["nvidia-0"], {"0"}), ([], set())],
)
def test_devices_are_chosen_by_index_or_id(wanted: object, expected: set[str]) -> None:
    cards = (device(0, power_watts=1.0), device(1, power_watts=2.0), device(0, "ascend", power_watts=3.0))
    with pytest.raises(ValueError, match='devices must be "visible", "all" or a list'):
        Recorder("some")
    with Recorder(wanted, source=Steady(*cards)) as recorder:  # type: ignore[arg-type]  # each form
        time.sleep(0.05)
    assert {name.split("/")[0] for name in recorder.results() if "/" in name} == expected


def test_unknown_devices_are_an_error() -> None:
    steady = Steady(device(0), device(1))
    for wanted in ([99], ["0", "99"]):
        with pytest.raises(UnknownNameError, match="this node has no device named '99'; known: 0, 1"):
            Recorder(wanted, source=steady).start()
    with pytest.warns(RuntimeWarning, match="nothing is recorded"), Recorder("all", source=Steady()):
        pass


def test_visible_devices_have_the_programs_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,1")
    cards = [device(number, power_watts=100.0 * number) for number in range(3)]
    with Recorder(source=Steady(*cards)) as recorder:
        time.sleep(0.05)
    numbers = recorder.results()
    means = {name: value for name, value in numbers.items() if name.endswith("/power_watts/mean")}
    assert means == {"0/power_watts/mean": pytest.approx(200.0), "1/power_watts/mean": pytest.approx(100.0)}


def test_failure_keeps_earlier_results() -> None:
    fed = Fed()
    fed.put(device(0, power_watts=100.0))
    with Recorder("all", source=fed) as recorder:
        time.sleep(0.05)
        fed.put(device(0, power_watts=100.0))
        fed.waiting.put(NotReachableError("gone"))
        assert recorder.results()["0/power_watts/mean"] == 100.0
    fed.waiting.put(NotReachableError("no listener"))
    with Recorder("all", source=fed) as recorder, pytest.raises(NotReachableError, match="no listener"):
        recorder.results()


def test_sections_never_wait_for_a_sample() -> None:
    """A thousand steps while no sample comes at all."""
    fed = Fed()
    fed.put(device(0, power_watts=1.0))
    recorder = Recorder("all", source=fed)
    recorder.start()
    for _ in range(1000):  # waiting for a sample would take half a minute each time
        with recorder("step"):
            pass
    fed.waiting.put(NotReachableError("end"))
    recorder.stop()
