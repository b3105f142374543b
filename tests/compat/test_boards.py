"""Public dashboards of other exporters on a real Prometheus that scrapes our pages: each query answers, or is listed with the reason."""

import platform
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from kits.captures import shared_folder
from kits.daemon import Daemon
from kits.grafana_board import queries
from kits.ports import free_address
from kits.prometheus import ConfiguredPrometheus
from kits.waiting import until
from telemetry_exporters.prometheus.compat import EXPORTERS, dcgm

pytestmark = [pytest.mark.needs("prometheus", "captures"), pytest.mark.timeout(300), pytest.mark.long]

CARDS = "3xnvidia,3xamd,2xhygon,2xascend,1xcambricon,2xmetax,2xiluvatar,2xintel,1xmoorethreads,1xkunlunxin,1xenflame"
OWNERS = "[attribution]\nenabled = true\n"
# The board selects its job by name.
JOBS = {"mx-exporter": "metax-mx-exporter"}
# In Kubernetes the target has a pod, so the cards' pods become `exported_pod`. AMD's boards select a cluster first.
TARGET_LABELS = {
    "dcgm-exporter": {"namespace": "monitoring", "pod": "telemetry-1"},
    "device-metrics-exporter": {"cluster_name": "c1"},
}
# Variables that only fit where Prometheus' instance is the name of the host.
GIVEN = {"mx-exporter-c500": {"server": platform.node(), "device": "0"}}
_HOST = "node_exporter exposes the host's metrics"
_NOT_READ = "no source reads it"
_LACKS = "the simulated card lacks it"
_OF_AMD = {
    _LACKS: "card_model gpu_hbm_temperature gpu_edge_temperature",
    _NOT_READ: "pcie_replay_rollover_count gpu_health",
}
_BY_CHANCE = "errors and events come by chance"
# For each dashboard, the reason why queries with these words have no answer here. All other queries have an answer.
EMPTY: Mapping[str, Mapping[str, str]] = {
    "amd-device-metrics-exporter-gpu": {
        **_OF_AMD,
        "a rate of disputed unit": "pcie_bandwidth",
        "it is written for Prometheus 3": '{"gpu_',
    },
    "amd-device-metrics-exporter-node": {**_OF_AMD, "a rate of disputed unit": "pcie_bandwidth"},
    "dcgm-exporter-12239": {},
    "dcgm-util-intelligence": {_LACKS: "GPU_I_"},
    "dcu-exporter": {"a rate of unknown window": "dcu_pciebw_mb", "virtual cards are not read": "vdcu_"},
    "ix-exporter": {},
    "mx-exporter-c500": {
        _LACKS: "mx_chip_hotspot_temp mx_gpu_clock mx_mem_clock mx_vpu mx_mxlk_traffic",
        _NOT_READ: "dpm_level bridge mxlk_speed mxlk_width eid_errors aer_count _bw{ mx_pci_event mx_clk_thr mx_ras",
        "a label of theirs for cards that are not available": "unavailable_reason",
    },
    "mx-exporter-usage-overview": {},
    "nvidia_gpu_exporter-14574": {
        _LACKS: "compute_mode fabric_state fan_speed _mig_",
        "the simulated card is never held down by it": "gpu_idle hw_thermal_slowdown hw_power_brake applications_clocks"
        " sync_boost",
        "processes are in our own metrics": "compute_app",
        _BY_CHANCE: "xid_",
        "a rate that takes 20 ms a card": "pcie_throughput",
    },
    "nvitop-exporter": {
        _HOST: "host_",
        "processes are in our own metrics": "process_",
        "rates: ours count bytes": "throughput_MiBps",
        "wrong in the dashboard: no host is left": "hostname!~",
    },
    "omnistat-standalone-global": {
        _HOST: "omnistat_",
        _LACKS: "decoder_utilization",
        _BY_CHANCE: "_correctable_count[1m] _uncorrectable_count[1m]",
    },
    "omnistat-standalone-node": {_HOST: "omnistat_", "wrong in the dashboard: a rate has no range": ")[15s]"},
    "xpumd": {
        "extremes within a window of theirs": "statistic=",
        "bytes read from and written to memory are not counted": "hw_memory_io",
        _LACKS: "hw_gpu_io",
    },
}


def board(name: str) -> Path:
    folder = shared_folder()
    assert folder is not None
    return folder / "dashboards" / f"{name}.json"


def job(name: str, address: str) -> dict[str, Any]:
    """Return the usual scrape configuration of that exporter."""
    targets = {"targets": [address], "labels": TARGET_LABELS.get(name, {})}
    return {"job_name": JOBS.get(name, name), "metrics_path": f"/metrics/{name}", "static_configs": [targets]}


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConfiguredPrometheus]:
    """Yield a Prometheus that scrapes each page as a job of the exporter's name, and dcgm-exporter's also on its own port."""
    folder, port = tmp_path_factory.mktemp("prometheus"), free_address()
    with ExitStack() as stack:
        ports = f'[compat.dcgm-exporter]\nlisten_address = "{port}"\n'
        node = stack.enter_context(Daemon(tmp_path_factory.mktemp("node"), OWNERS + ports, ("--demo", CARDS)))
        jobs = [job(name, node.address) for name in EXPORTERS]
        jobs.append({"job_name": "own port", "static_configs": [{"targets": [port]}]})
        parted = stack.enter_context(Daemon(tmp_path_factory.mktemp("parted"), "", ("--demo", "1xh100mig")))
        jobs.append({**job("dcgm-exporter", parted.address), "job_name": "parted"})
        jobs.append({**job("dcgm-exporter", parted.address), "job_name": "parted, ours", "metrics_path": "/metrics"})
        jobs.append({**job("dcgm-exporter", node.address), "job_name": "new names", "params": {"version": ["4.9"]}})
        jobs.append({**job("dcgm-exporter", node.address), "job_name": "everybody", "params": {"vendors": ["all"]}})
        config = folder / "prometheus.yml"
        config.write_text(
            yaml.safe_dump({"global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "scrape_configs": jobs})
        )
        server = stack.enter_context(ConfiguredPrometheus(config))
        until(lambda: len(server.query("count_over_time(up[1m]) > 15")[1]) == len(jobs), "scrapes")
        yield server


@pytest.mark.parametrize("name", EMPTY)
def test_each_query_has_an_answer_or_is_listed_as_empty(name: str, prometheus: ConfiguredPrometheus) -> None:
    asked = queries(board(name), prometheus, GIVEN.get(name, {}))
    assert asked
    listed = " ".join(EMPTY[name].values()).split()
    expected = [query for query in asked if not any(word in query for word in listed)]
    # A simulated source fails now and then, and its readings are missing until its next poll.
    until(lambda: all(prometheus.query(query)[1] for query in expected), f"answers to {expected}")
    empty = [query for query in asked if not prometheus.query(query)[1]]
    # Words that are in no empty query must be removed from the list.
    assert [word for word in listed if not any(word in query for query in empty)] == []


def test_each_dashboard_is_asked() -> None:
    assert {path.stem for path in board("any").parent.glob("*.json")} == set(EMPTY)


@pytest.mark.parametrize(
    "query",
    [
        # Queries of prometheus-adapter and KEDA.
        'avg(DCGM_FI_DEV_GPU_UTIL{namespace!="",pod!=""}) by (namespace, pod)',
        'avg(DCGM_FI_DEV_GPU_UTIL{pod=~".+"})',
        "DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE)",
        "DCGM_FI_DEV_XID_ERRORS >= 0",
        'up{job="dcgm-exporter"} == 1',
        'DCGM_FI_DEV_GPU_UTIL{job="own port"}',
        'count(count by (vendor) (DCGM_FI_DEV_GPU_TEMP{job="everybody"})) >= 9',
    ],
)
def test_autoscalers_and_alerts_are_answered(query: str, prometheus: ConfiguredPrometheus) -> None:
    assert prometheus.query(query)[1] != []


def test_dashboard_with_the_names_of_4_9_is_answered(prometheus: ConfiguredPrometheus) -> None:
    """Each query of board 12239, with the names of 4.9, is answered from the page of that version."""
    names = {f"DCGM_FI_{old}": f"DCGM_FI_{new}" for old, new, _ in dcgm.DEFAULT_RENAMES}
    asked = [
        re.sub(r"\bDCGM_FI_\w+", lambda match: names.get(match[0], match[0]), query)
        for query in queries(board("dcgm-exporter-12239"), prometheus, {})
    ]
    found = [name for query in asked for name in re.findall(r"\bDCGM_FI_\w+", query)]
    assert len(asked) == 8
    assert set(found) <= set(names.values())
    new = [re.sub(r"(\bDCGM_FI_\w+)\{", r'\1{job="new names",', query) for query in asked]
    assert [query for query in new if not prometheus.query(query)[1]] == []
