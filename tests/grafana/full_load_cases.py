"""The cases of alerts that compare many cards at work: just over each threshold, and just within it."""

from grafana.alert_cases import Case, of_card


def _loaded(device: str, watts: float, busy: float = 1, **others: float) -> dict[str, str]:
    """A busy card: its power and utilization as readings and as counters, and other readings."""
    readings = {"accelerator_power_watts": watts, "accelerator_utilization_ratio": busy, **others}
    series = [of_card(metric, device, f"{value}x120") for metric, value in readings.items()]
    series += [of_card("accelerator_energy_estimated_joules_total", device, f"0+{60 * watts}x120")]
    series += [of_card("accelerator_busy_seconds_total", device, f"0+{60 * busy}x120")]
    return {name: values for of_metric in series for name, values in of_metric.items()}


def _clocked(device: str, watts: float, hertz: float, node: str = "") -> dict[str, str]:
    series = _loaded(device, watts)
    clock = f'{{V,device="{device}",id="id{device}",model="m",domain="sm"}}'
    series[f"accelerator_clock_hertz{clock}"] = f"{hertz}x120"
    labels = f'{{job="telemetry",instance="{node}",vendor="v"' if node else "{V"
    return {name.replace("{V", labels): values for name, values in series.items()}


def _peers(count: int, last: tuple[float, float], node: str = "") -> dict[str, str]:
    peers = [(str(n), f"{node}{n}" if node else "") for n in range(count)]
    cards = [_clocked(device, *(last if n == count - 1 else (600, 1.6e9)), at) for n, (device, at) in enumerate(peers)]
    return {name: values for of_card in cards for name, values in of_card.items()}


SEEN = {**_loaded("idle", 100, 0), **_loaded("busy", 600)}
QUIET = {"accelerator_memory_activity_ratio": 0.05}
BUSY_MEMORY = {"accelerator_memory_bandwidth_ratio": 0.06}


def _of_job(instance: str, device: str, owner: str = "41", busy: int = 54) -> dict[str, str]:
    labels = f'job="telemetry",instance="{instance}",vendor="v",device="{device}",id="{instance}-{device}",model="m"'
    return {
        f"accelerator_busy_seconds_total{{{labels}}}": f"0+{busy}x120",
        f'accelerator_allocation_ratio{{{labels},owner_kind="job",owner="{owner}",job_id="{owner}",user="alice",basis="whole"}}': "1x120",
    }


def _job(*cards: dict[str, str]) -> dict[str, str]:
    return {name: values for card in cards for name, values in card.items()}


def _nodes(*busy: int) -> dict[str, str]:
    return _job(*(_of_job(f"node{n}", str(card), busy=rate) for n, rate in enumerate(busy) for card in range(4)))


_NODE1 = [_of_job("node1", str(number)) for number in range(3)]
_NODE2 = [_of_job("node2", str(number)) for number in range(3)]
_SLOW = _of_job("node2", "3", busy=30)

FULL_LOAD = (
    Case(
        "AcceleratorsHung",
        {**SEEN, **_loaded("0", 199, **QUIET)},
        {
            "draws more": {**SEEN, **_loaded("0", 201, **QUIET)},
            "its memory works": {**SEEN, **_loaded("0", 199, **QUIET, **BUSY_MEMORY)},
            "not busy all the time": {**SEEN, **_loaded("0", 199, 0.98, **QUIET)},
            "no idle card was seen": {**_loaded("busy", 600), **_loaded("0", 199, **QUIET)},
            "nothing in its memory": {**SEEN, **_loaded("0", 199, accelerator_memory_used_ratio=0.01, **QUIET)},
        },
    ),
    Case(
        "AcceleratorsHung",
        {**SEEN, **_loaded("0", 124)},
        {
            "draws more": {**SEEN, **_loaded("0", 126)},
            # A broken sensor.
            "far below an idle card": {**SEEN, **_loaded("0", 8)},
        },
    ),
    Case(
        "AcceleratorSlowerThanPeers",
        _peers(4, (480, 1.28e9)),
        {
            "almost as fast": _peers(4, (470, 1.38e9)),
            "draws almost as much": _peers(4, (520, 1.28e9)),
            "too few peers": _peers(3, (480, 1.28e9)),
        },
    ),
    Case(
        "AcceleratorNodeSlow",
        _peers(4, (480, 1.28e9), "node"),
        {
            "almost as fast": _peers(4, (470, 1.38e9), "node"),
            "too few peers": _peers(3, (480, 1.28e9), "node"),
        },
    ),
    Case(
        "AcceleratorJobSlowestNode",
        _nodes(54, 54, 32),
        {
            "a little less": _nodes(54, 54, 44),
            "two nodes": _nodes(54, 32),
            "nodes that do different work": _nodes(54, 40, 20),
            "of another job": _job(*_NODE1, *_NODE2, *(_of_job("node3", str(n), "42", 32) for n in range(3))),
        },
    ),
    Case(
        "AcceleratorJobSlowestCard",
        _job(*_NODE1, *_NODE2, _SLOW),
        {
            "all alike": _job(*_NODE1, *_NODE2, _of_job("node2", "3")),
            "of another job": _job(*_NODE1, *_NODE2, _of_job("node2", "3", owner="42", busy=30)),
            "idle": _job(*_NODE1, *_NODE2, _of_job("node2", "3", busy=0)),
            "cards that do different work": _job(
                *(_of_job("node1", str(number), busy=10 + 15 * number) for number in range(4)), *_NODE2[:1]
            ),
        },
    ),
)
