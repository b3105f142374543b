"""The cases of alerts about cards that are fully busy: just over each threshold, and just within it."""

from __future__ import annotations

from grafana.alert_cases import Case, of_card


def _loaded(device: str, watts: float, busy: float = 1, **others: float) -> dict[str, str]:
    """A card at work: its power as read and as counted, its utilization likewise, and whatever else it tells."""
    told = {"accelerator_power_watts": watts, "accelerator_utilization_ratio": busy, **others}
    series = [of_card(metric, device, f"{value}x120") for metric, value in told.items()]
    series += [of_card("accelerator_energy_estimated_joules_total", device, f"0+{60 * watts}x120")]
    series += [of_card("accelerator_busy_seconds_total", device, f"0+{60 * busy}x120")]
    return {name: values for of_metric in series for name, values in of_metric.items()}


def _clocked(device: str, watts: float, hertz: float, node: str = "") -> dict[str, str]:
    series = _loaded(device, watts)
    clock = f'{{{{T}},vendor="{{vendor}}",device="{device}",id="id{device}",model="m",domain="sm"}}'
    series[f"accelerator_clock_hertz{clock}"] = f"{hertz}x120"
    target = f'job="telemetry",instance="{node}"' if node else "{T}"
    return {name.replace("{T}", target): values for name, values in series.items()}


def _peers(count: int, one: tuple[float, float], node: str = "") -> dict[str, str]:
    """Cards of one node, or each of a node of its own, at 600 W and 1.6 GHz but for the last one."""
    places = [(str(n), f"{node}{n}" if node else "") for n in range(count)]
    told = [_clocked(device, *(one if n == count - 1 else (600, 1.6e9)), at) for n, (device, at) in enumerate(places)]
    return {name: values for of_card in told for name, values in of_card.items()}


SEEN = {**_loaded("idle", 100, 0), **_loaded("busy", 600)}
QUIET = {"accelerator_memory_activity_ratio": 0.05}
BUSY_MEMORY = {"accelerator_memory_bandwidth_ratio": 0.06}
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
        _peers(4, (470, 1.27e9)),
        {
            "almost as fast": _peers(4, (470, 1.29e9)),
            "draws almost as much": _peers(4, (490, 1.27e9)),
            "too few peers": _peers(3, (470, 1.27e9)),
        },
    ),
    Case(
        "AcceleratorNodeSlow",
        _peers(4, (470, 1.27e9), "node"),
        {
            "almost as fast": _peers(4, (470, 1.29e9), "node"),
            "too few peers": _peers(3, (470, 1.27e9), "node"),
        },
    ),
)
