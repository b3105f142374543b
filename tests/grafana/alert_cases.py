"""For each alert series that must make it fire and series, mostly just beside them, that must not."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

# {D} stands for the labels of a device of the vendor at hand, {T} for those of its node's daemon. Times are minutes
# after 0; every case is looked at after an hour.
Series = Mapping[str, str]
ALWAYS = "1x120"
HERE = {"telemetry_build_info{{T}}": ALWAYS}


@dataclass(frozen=True)
class Case:
    """An alert with series that fire it and, by what they show, series that do not."""

    alert: str
    fires: Series
    silent: Mapping[str, Series] = field(default_factory=dict)


def _over(metric: str, above: object, below: object, more: Series | None = None) -> tuple[Series, Mapping[str, Series]]:
    rest = dict(more or {})
    return {metric: f"{above}x120", **rest}, {"just within": {metric: f"{below}x120", **rest}}


def _case(alert: str, metric: str, above: object, below: object, more: Series | None = None, **others: Series) -> Case:
    fires, silent = _over(metric, above, below, more)
    return Case(alert, fires, {**silent, **{name.replace("_", " "): series for name, series in others.items()}})


UP_OF_S = 'telemetry_source_up{{T},source="s"}'
UP = {"accelerator_up{{D}}": ALWAYS}
RELEASED = {'telemetry_source_state{{T},source="s",state="released"}': ALWAYS}
SUSPENDED = {'telemetry_source_state{{T},source="s",state="suspended"}': ALWAYS}
OF_VENDOR = '{{T},vendor="{vendor}"}'
OTHER = 'accelerator_up{{T},vendor="{vendor}",device="1",id="other",model="m"}'
FEWER = {f"telemetry_devices_expected{OF_VENDOR}": "2x120", **UP}
BUS = {f"telemetry_pci_devices{OF_VENDOR}": "2x120", **UP}
PARTITION = {OTHER: ALWAYS, OTHER.replace("_up{", "_info{")[:-1] + ',parent="an id"}': ALWAYS}
# Of two cards one goes, and the daemon begins anew with nothing that it remembers.
GONE = {**UP, OTHER: "1x20 stale _x100", **HERE}
MEMORY = "telemetry_remembers_since_timestamp_seconds{{T}}"
ANEW = {MEMORY: "3x20 _x2 1320x100"}
POLL_UP = 'telemetry_source_poll_up{{T},source="s",poll="p"}'
CORE = 'accelerator_temperature_celsius{{D},sensor="core"}'
HBM = 'accelerator_temperature_celsius{{D},sensor="hbm0"}'
BOARD = 'accelerator_temperature_celsius{{D},sensor="board"}'
SLOWDOWN = 'accelerator_temperature_slowdown_celsius{{D},sensor="core"}'
CRITICAL = 'accelerator_temperature_critical_celsius{{D},sensor="core"}'
PEER = 'accelerator_temperature_celsius{{T},vendor="{vendor}",device="1",id="peer",model="m",sensor="core"}'


def of_card(metric: str, device: str, values: str) -> dict[str, str]:
    return {f'{metric}{{{{T}},vendor="{{vendor}}",device="{device}",id="id{device}",model="m"}}': values}


def _cards(number: int) -> dict[str, str]:
    return {name: values for n in range(number) for name, values in of_card("accelerator_up", str(n), ALWAYS).items()}


def _busy(device: str, seconds_a_minute: float) -> dict[str, str]:
    return of_card("accelerator_busy_seconds_total", device, f"0+{seconds_a_minute}x120")


def _draws(watts: float, series: str) -> dict[str, str]:
    """The integral of that power, of the card of another series."""
    metric = "accelerator_energy_estimated_joules_total"
    return {re.sub(r"^\w+", metric, series).replace(',sensor="core"', ""): f"0+{60 * watts}x120"}


MONITOR = (
    Case(
        "TelemetryDown",
        {"up{{T}}": "0x120", "telemetry_build_info{{T}}": "1x5 _x115"},
        {
            "answers": {"up{{T}}": ALWAYS, **HERE},
            "another exporter's target": {"up{{T}}": "0x120", 'telemetry_build_info{job="o",instance="o"}': ALWAYS},
        },
    ),
    Case(
        "TelemetrySilent",
        {'telemetry_build_info{{T},pushed="yes"}': "1x40 _x80", 'up{{T},pushed="yes"}': "1x40 _x80"},
        {
            "sends": {'telemetry_build_info{{T},pushed="yes"}': ALWAYS, 'up{{T},pushed="yes"}': ALWAYS},
            "sends without up": {'telemetry_build_info{{T},pushed="yes"}': ALWAYS},
            "daemon down": {
                'telemetry_build_info{{T},pushed="yes"}': "1x40 stale",
                'up{{T},pushed="yes"}': "1x40 0x80",
            },
            "cut off for a moment": {
                'telemetry_build_info{{T},pushed="yes"}': "1x40 _x12 1x60",
                'up{{T},pushed="yes"}': "1x40 _x12 1x60",
            },
            "scraped, and no target any more": {"telemetry_build_info{{T}}": "1x40 stale", "up{{T}}": "1x40 stale"},
        },
    ),
    # That nothing at all is there shows test_maintenance.py.
    Case(
        "TelemetryAbsent",
        {"up{{T}}": "1x30 stale", "telemetry_build_info{{T}}": "1x30 stale"},
        {"one node": HERE, "a node that is down": {"up{{T}}": "1x30 0x90", "telemetry_build_info{{T}}": "1x30 stale"}},
    ),
    Case(
        "TelemetrySourceFailing",
        {UP_OF_S: "0x120"},
        {
            "works": {UP_OF_S: ALWAYS},
            "for a moment": {UP_OF_S: "1x55 0x65"},
        },
    ),
    Case(
        "TelemetrySourceStuck",
        {'telemetry_source_state{{T},source="s",state="stuck"}': ALWAYS},
        {"failed": {'telemetry_source_state{{T},source="s",state="failed"}': ALWAYS}},
    ),
    Case(
        "TelemetryReadingsStale",
        {POLL_UP: "1x30 0x90"},
        {
            "not for long": {POLL_UP: "1x40 0x80"},
            "one success lately": {POLL_UP: "1x30 0x10 1 0x80"},
            "released": {POLL_UP: "1x30 0x90", **RELEASED},
            "suspended": {POLL_UP: "1x30 0x90", **SUSPENDED},
            "the whole source fails": {POLL_UP: "1x30 0x90", UP_OF_S: "1x30 0x90"},
        },
    ),
    Case("TelemetryReadingsStale", {POLL_UP: "1x30 0x15 _x2 0x70"}),
    Case(
        "TelemetryClockSkew",
        {"telemetry_time_seconds{{T}}": "-61+60x120"},
        {
            "nearly right": {"telemetry_time_seconds{{T}}": "-59+60x120"},
            "not scraped since, and set meanwhile": {"telemetry_time_seconds{{T}}": "0+60x58 _x60"},
            "wrong for some minutes after a start": {"telemetry_time_seconds{{T}}": "0+60x40 _x5 9000+60x9 3360+60x60"},
        },
    ),
    Case("TelemetryClockSkew", {"telemetry_time_seconds{{T}}": "900+60x120"}),
    Case(
        "TelemetryReadingsGone",
        {"accelerator_power_watts{{D}}": "90x30 _x90", **UP},
        {
            "still told": {"accelerator_power_watts{{D}}": "90x120", **UP},
            "another core reading": {"accelerator_power_watts{{D}}": "90x30 _x90", CORE: "50x120", **UP},
            "never had any": UP,
            "released": {"accelerator_power_watts{{D}}": "90x30 _x90", "accelerator_up{{D}}": "1x30 _x90"},
            "asleep": {"accelerator_power_watts{{D}}": "90x30 _x90", **UP, "accelerator_suspended{{D}}": ALWAYS},
            "lost": {"accelerator_power_watts{{D}}": "90x30 _x90", "accelerator_up{{D}}": "1x30 0x90"},
        },
    ),
    _case("TelemetryPollSlow", 'telemetry_source_duration_seconds{{T},source="s",poll="p"}', 5.1, 5),
    Case("TelemetryPollSlow", {'telemetry_source_duration_seconds{{T},source="s",poll="p"}': "5.1x120", **_cards(16)}),
    # One call of npu-smi tells of one card.
    _case(
        "TelemetryPollSlow",
        'telemetry_source_duration_seconds{{T},source="npu-smi",poll="common"}',
        16.1,
        16,
        _cards(16),
    ),
    _case("TelemetryNotUnderstood", 'telemetry_source_problems{{T},source="s"}', 1, 0, {UP_OF_S: ALWAYS}),
    _case("TelemetryPluginNotLoaded", 'telemetry_plugin_load_failures{{T},plugin="p"}', 1, 0),
    _case("TelemetryConfigurationRejected", "telemetry_config_last_reload_successful{{T}}", 0, 1),
    Case(
        "TelemetryRestarting",
        {"process_start_time_seconds{{T}}": "0x30 10x5 20x5 30x5 40x75", **HERE},
        {
            "three times": {"process_start_time_seconds{{T}}": "0x30 10x5 20x5 30x80", **HERE},
            "another process": {"process_start_time_seconds{{T}}": "0x30 10x5 20x5 30x5 40x75"},
        },
    ),
)
PRESENCE = (
    Case(
        "AcceleratorLost",
        {"accelerator_up{{D}}": "0x120"},
        {
            "there": UP,
            "nobody knows": {"accelerator_up{{D}}": "1x20 _x100"},
            "for a moment": {"accelerator_up{{D}}": "1x58 0x62"},
        },
    ),
    Case(
        "AcceleratorFlapping",
        {"accelerator_up{{D}}": "1x20 " + "0x4 1x2 " * 5 + "0x60"},
        {
            "lost once": {"accelerator_up{{D}}": "1x20 0x9 1x90"},
            "lost for good after it flapped": {"accelerator_up{{D}}": "1x5 0x4 1x4 0x100"},
            "forgotten after it flapped": {"accelerator_up{{D}}": "1x20 " + "0x4 1x2 " * 3 + "0x4 _x60"},
            "two short losses": {"accelerator_up{{D}}": "1x40 0 1x5 0 1x60"},
        },
    ),
    Case(
        "AcceleratorLost",
        {"accelerator_up{{D}}": "1x5 0x4 1x4 0x100"},
        {"flaps, which is told": {"accelerator_up{{D}}": "1x20 " + "0x4 1x2 " * 3 + "0x4 1x2 0x60"}},
    ),
    Case(
        "AcceleratorsFewerThanBefore",
        {**GONE, **ANEW},
        {
            "nothing was forgotten": {**GONE, f"{MEMORY}": "3x120"},
            "all there": {**UP, OTHER: ALWAYS, **HERE, **ANEW},
            "lost, which is told": {**UP, OTHER: "1x20 _x2 0x100", **HERE, **ANEW},
            "expected": {**GONE, **ANEW, f"telemetry_devices_expected{OF_VENDOR}": ALWAYS},
            "on the bus, which is told": {**GONE, **ANEW, f"telemetry_pci_devices{OF_VENDOR}": "2x120"},
            "there for a moment only": {**UP, OTHER: "_x10 1x2 stale _x110", **HERE, **ANEW},
            "the node is down": {**GONE, **ANEW, "telemetry_build_info{{T}}": "1x30 _x90"},
            "released": {**GONE, **ANEW, **RELEASED},
            "asleep": {**GONE, **ANEW, **SUSPENDED},
        },
    ),
    Case(
        "AcceleratorsFewerThanExpected",
        FEWER,
        {
            "all there": {**FEWER, OTHER: ALWAYS},
            "lost, which is told": {**FEWER, OTHER: "0x120"},
            "released": {**FEWER, **RELEASED},
            "asleep": {**FEWER, **SUSPENDED},
            "nothing expected": UP,
        },
    ),
    Case(
        "AcceleratorNotListed",
        {f"telemetry_pci_devices{OF_VENDOR}": ALWAYS},
        {
            "all listed": {**BUS, OTHER: ALWAYS},
            "lost, which is told": {**BUS, OTHER: "0x120"},
            "more than on the bus": {**BUS, f"telemetry_pci_devices{OF_VENDOR}": ALWAYS, OTHER: ALWAYS},
            "released": {**BUS, **RELEASED},
            "asleep": {**BUS, **SUSPENDED},
        },
    ),
    Case("AcceleratorNotListed", BUS),
    Case("AcceleratorsFewerThanExpected", {**FEWER, **PARTITION}),
)
HEALTH = (
    Case(
        "AcceleratorRecoveryNeeded",
        {'accelerator_recovery_action{{D},action="reset"}': ALWAYS},
        {
            "none": {'accelerator_recovery_action{{D},action="none"}': ALWAYS},
            "another one": {'accelerator_recovery_action{{D},action="reset"}': "0x120"},
        },
    ),
    Case(
        "AcceleratorUnhealthy",
        {'accelerator_health{{D},state="alarm"}': ALWAYS},
        {
            "warning": {'accelerator_health{{D},state="warning"}': ALWAYS},
            "well": {'accelerator_health{{D},state="alarm"}': "0x120"},
        },
    ),
    Case("AcceleratorUnhealthy", {'accelerator_health{{D},state="critical"}': "1x5 _x115"}),
    _case("AcceleratorUncorrectedErrors", 'accelerator_ecc_uncorrected_total{{D},location="dram"}', 1, 0),
    Case("AcceleratorUncorrectedErrors", {'accelerator_ecc_uncorrected_total{{D},location="dram"}': "1x10 _x110"}),
    _case("AcceleratorCorrectedErrorStorm", 'accelerator_ecc_corrected_total{{D},location="dram"}', 20000001, 20000000),
    _case("AcceleratorCorrectedErrorStorm", 'accelerator_ecc_corrected_total{{D},location="sram"}', 10001, 10000),
    _case("AcceleratorRowRemapFailed", "accelerator_row_remap_failed{{D}}", 1, 0),
    _case("AcceleratorResetNeededForMemory", "accelerator_row_remap_pending{{D}}", 1, 0),
    _case("AcceleratorResetNeededForMemory", "accelerator_retired_pages_pending{{D}}", 1, 0),
    _case("AcceleratorMemoryWearingOut", 'accelerator_retired_pages{{D},cause="multiple"}', 11, 10),
    _case("AcceleratorMemoryWearingOut", 'accelerator_remapped_rows{{D},cause="uncorrectable"}', 512, 511),
    Case(
        "AcceleratorLinkDown",
        {'accelerator_link_up{{D},link="0"}': "1x30 0x90"},
        {
            "up": {'accelerator_link_up{{D},link="0"}': ALWAYS},
            "never was": {'accelerator_link_up{{D},link="0"}': "0x120"},
        },
    ),
    Case(
        "AcceleratorLinkFlapping",
        {'accelerator_link_up{{D},link="0"}': "1x20 0x2 1x10 0x2 1x10 0x2 1x70"},
        {
            "twice": {'accelerator_link_up{{D},link="0"}': "1x20 0x2 1x10 0x2 1x80"},
            "up": {'accelerator_link_up{{D},link="0"}': ALWAYS},
            "long ago": {'accelerator_link_up{{D},link="0"}': "0 1 0 1 0 1 1x120"},
        },
    ),
    Case(
        "AcceleratorLinkErrors",
        {'accelerator_link_crc_errors_total{{D},link="0"}': "0+6060x120"},
        {"few": {'accelerator_link_crc_errors_total{{D},link="0"}': "0+5940x120"}},
    ),
    Case(
        "AcceleratorLinkErrors",
        {'accelerator_link_recovery_errors_total{{D},link="0"}': "0x55 1x65"},
        {"long ago": {'accelerator_link_recovery_errors_total{{D},link="0"}': "0x5 1x115"}},
    ),
    Case(
        "AcceleratorPcieReplays",
        {"accelerator_pcie_replays_total{{D}}": "0+9x120"},
        {"few": {"accelerator_pcie_replays_total{{D}}": "0+7x120"}},
    ),
    Case(
        "AcceleratorPcieDegraded",
        {"accelerator_pcie_link_width{{D}}": "8x120", "accelerator_pcie_link_width_max{{D}}": "16x120"},
        {"full": {"accelerator_pcie_link_width{{D}}": "16x120", "accelerator_pcie_link_width_max{{D}}": "16x120"}},
    ),
    Case(
        "AcceleratorPcieDegraded",
        {
            "accelerator_pcie_link_generation{{D}}": "3x120",
            "accelerator_pcie_link_generation_max{{D}}": "5x120",
            "accelerator_busy_seconds_total{{D}}": "0+30.6x120",
        },
        {
            "idle": {
                "accelerator_pcie_link_generation{{D}}": "1x120",
                "accelerator_pcie_link_generation_max{{D}}": "5x120",
                "accelerator_busy_seconds_total{{D}}": "0+29.4x120",
            }
        },
    ),
)
RUNNING = (
    _case("AcceleratorHot", CORE, 85.1, 85),
    _case("AcceleratorHot", CORE, 95.1, 95, {SLOWDOWN: "100x120"}, memory_is_no_core={HBM: "94x120"}),
    _case("AcceleratorHot", CORE, 60.1, 60, {SLOWDOWN: "65x120"}),
    _case("AcceleratorTemperatureCritical", CORE, 95, 94.9),
    _case("AcceleratorTemperatureCritical", HBM, 95, 94.9, board={BOARD: "99x120"}),
    _case("AcceleratorTemperatureCritical", CORE, 110, 109, {CRITICAL: "110x120"}),
    _case("AcceleratorHotterThanPeers", CORE, 81, 79.9, {PEER: "50x120"}),
    Case(
        "AcceleratorHotterThanPeers",
        {CORE: "81x120", PEER: "50x120", **_draws(350, CORE), **_draws(300, PEER)},
        {
            # Partitioned cards tell no utilization.
            "draws more power": {CORE: "81x120", PEER: "50x120", **_draws(600, CORE), **_draws(100, PEER)},
        },
    ),
    Case(
        "AcceleratorFanStopped",
        {"accelerator_fan_ratio{{D}}": "0.4x20 0x100", CORE: "70.1x120"},
        {
            "turns slowly": {"accelerator_fan_ratio{{D}}": "0.4x20 0.1x100", CORE: "70.1x120"},
            "cool": {"accelerator_fan_ratio{{D}}": "0.4x20 0x100", CORE: "70x120"},
            # Some tools print 0 for cards that have no fan.
            "a model without fans": {
                "accelerator_fan_ratio{{D}}": "0x120",
                CORE: "75x120",
                **of_card("accelerator_fan_ratio", "1", "0x120"),
            },
        },
    ),
    Case(
        "AcceleratorFanStopped",
        {
            "accelerator_fan_ratio{{D}}": "0x120",
            CORE: "75x120",
            **of_card("accelerator_fan_ratio", "1", "0.5x120"),
        },
    ),
    *(
        _case("AcceleratorThermalThrottling", f'accelerator_throttled{{{{D}},reason="{reason}"}}', 1, 0)
        for reason in ("hw_thermal", "socket_thermal", "chip_over_temperature", "prochot")
    ),
    Case(
        "AcceleratorThermalThrottling",
        {'accelerator_throttled{{D},reason="sw_thermal"}': "0x40 1 0 1 1 0 1 1 0 1 1 0 1 1 0 1 1 0 1 1 0 1 1 0x60"},
        {
            "half of the time": {
                'accelerator_throttled{{D},reason="sw_thermal"}': "0x40 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 0x60"
            }
        },
    ),
    _case("AcceleratorPowerBrake", 'accelerator_throttled{{D},reason="hw_power_brake"}', 1, 0),
    _case("AcceleratorPowerBrake", 'accelerator_throttled{{D},reason="power_brake"}', 1, 0),
    Case(
        "AcceleratorIdleWithMemoryHeld",
        {"accelerator_busy_seconds_total{{D}}": "0+1.1x120", "accelerator_memory_used_ratio{{D}}": "0.51x120"},
        {
            "busy": {
                "accelerator_busy_seconds_total{{D}}": "0+1.3x120",
                "accelerator_memory_used_ratio{{D}}": "0.51x120",
            },
            "free": {
                "accelerator_busy_seconds_total{{D}}": "0+1.1x120",
                "accelerator_memory_used_ratio{{D}}": "0.5x120",
            },
        },
    ),
    Case(
        "AcceleratorStraggler",
        {**_busy("0", 40), **_busy("1", 55), **_busy("2", 55), **_busy("3", 55)},
        {
            "close to its peers": {**_busy("0", 44), **_busy("1", 55), **_busy("2", 55), **_busy("3", 55)},
            "too few peers": {**_busy("0", 40), **_busy("1", 55), **_busy("2", 55)},
        },
    ),
)
CASES = (*MONITOR, *PRESENCE, *HEALTH, *RUNNING)
