"""Snapshots for tests: plain builders with sensible defaults, and Hypothesis strategies for any snapshot."""

from dataclasses import replace
from functools import cache

from hypothesis import strategies as st

from kits.drawn import Drawn
from telemetry_exporters.prometheus.renderer import EOF, Renderer, Syntax
from telemetry_exporters.snapshot_filter import NO_METRICS
from telemetry_parsers.maintenance import Maintenance
from telemetry_parsers.metrics import BY_KEY, CATALOGUE, OWN_LABELS
from telemetry_parsers.model import (
    REASONS,
    Absent,
    Health,
    MergedDevice,
    MergedReading,
    Metric,
    Process,
    Sample,
    Snapshot,
    SourceStatus,
)
from telemetry_parsers.ownership import Allocation, Owner
from telemetry_parsers.readings import Origin, Readings, Shape
from telemetry_parsers.replay_info import ReplayInfo
from telemetry_parsers.vendors import VENDOR_WORDS

WALL_TIME = 1_767_225_600.0  # 2026-01-01T00:00:00Z
NOW = 5_000.0

DEVICE_METRICS = tuple(
    metric for metric in CATALOGUE if metric.scope == "device" and metric.key not in ("up", "unread", "info")
)
HOST_METRICS = tuple(metric for metric in CATALOGUE if metric.scope == "host")
FREE_OWN_METRICS = tuple(
    name
    for name in OWN_LABELS
    if not name.startswith(("telemetry_source_", "telemetry_maintenance"))
    and name not in ("telemetry_devices", "telemetry_devices_refused")
)


def openmetrics_page(snapshot, extra=NO_METRICS):
    return Renderer(extra).page(snapshot, Syntax.OPENMETRICS) + EOF


def reading(metric, value, label="", source="nvml"):
    assert metric in BY_KEY or metric.startswith("acme_") or metric == "no_such_metric"
    return MergedReading(metric, label, value, source, NOW - 1, 2.0)


def device(number=0, *readings, vendor="nvidia", model="NVIDIA H100 80GB HBM3", **facts):
    defaults = {"index": number, "id": f"GPU-{number:08d}", "device": str(number), "current_model": model} | facts
    return MergedDevice(vendor=vendor, model=model, readings=tuple(readings), **defaults)


def poll(source="nvml", name="readings", state="ok", **health):
    """Return a fast poll that was tried two seconds ago."""
    defaults = {
        "tier": "fast",
        "lists_devices": True,
        "attempted": WALL_TIME - 2,
        "attempted_monotonic": NOW - 2,
        "expires": NOW + 8,
        "seconds": 0.25,
        "last_success": WALL_TIME - 2 if state == "ok" else None,
    }
    return Health(source=source, poll=name, state=state, **(defaults | health))


def source(name="nvml", state="ok", **status):
    """Return a source with one poll in the same state."""
    defaults = {
        "vendor": "nvidia",
        "up": {"ok": True, "failed": False, "stuck": False}.get(state),
        "polls": (poll(name, state=state, reason=status.get("reason")),),
    }
    return SourceStatus(source=name, state=state, **(defaults | status))


def snapshot(*devices, sources=(), **parts):
    defaults = {"hostname": "node17", "wall_time": WALL_TIME, "monotonic_time": NOW, "valid_until": NOW + 8}
    return Snapshot(devices=tuple(devices), sources=tuple(sources), **(defaults | parts))


def full_device(number=0, vendor="nvidia", model="NVIDIA H100 80GB HBM3", **facts):
    """Return a device with every core reading and a few absences."""
    return device(
        number,
        reading("temperature_celsius", 41.0, "core"),
        reading("temperature_celsius", 48.0, "memory"),
        reading("power_watts", 112.5),
        reading("power_cap_watts", 700.0),
        reading("memory_used_bytes", 2097152.0),
        reading("memory_total_bytes", 85899345920.0),
        reading("memory_used_ratio", 2097152 / 85899345920),
        reading("utilization_ratio", 0.0),
        reading("energy_joules_total", 123456789.125),
        reading("fan_ratio", Absent.NOT_SUPPORTED),
        reading("clock_hertz", 1980e6, "sm"),
        reading("clock_hertz", Absent.NOT_PERMITTED, "memory"),
        vendor=vendor,
        model=model,
        **facts,
    )


JOB = Owner("job", "1234", job_id="1234", user="alice", account="physics", partition="gpu")
POD = Owner("pod", "ml/train-0/main", pod_namespace="ml", pod_name="train-0", container_name="main")


def allocation(owner=JOB, share=1.0, basis="whole", **fields):
    """Return an allocation of the device for an hour."""
    defaults = {"is_allocated": True, "is_used": True, "sources": ("slurm",), "started": WALL_TIME - 3600.0}
    return Allocation(owner, share, basis, **(defaults | fields))


def process(pid=4711, name="python3", memory=2.0**30, **fields):
    """Return a process of the job with all facts."""
    defaults = {
        "kind": "compute",
        "utilization_ratio": 0.25,
        "started": WALL_TIME - 1800.0,
        "user": "alice",
        "command": "python3",
        "container": "0123456789ab",
        "owner": JOB,
    }
    return Process(0, pid, name, memory, **(defaults | fields))


def shared_device(number=0, **facts):
    """Return a device that a job and a pod share, with a process of each and of a third owner."""
    return full_device(
        number,
        allocations=(
            allocation(JOB, 0.75, "utilization", memory_used_bytes=2.0**31),
            allocation(POD, 0.25, "utilization", sources=("kubelet",), is_used=False, started=None),
        ),
        processes=(
            process(),
            process(4712, "serve", 2.0**20, user="root", command="serve", container="ba9876543210", owner=POD),
            Process(0, 4713, "other"),
        ),
        **facts,
    )


def big_snapshot(devices, readings_each=60, seed=0):
    """Return a snapshot of this many devices and readings, in the order of merge; `seed` decides the numbers."""
    metrics, shape = big_shape(readings_each)
    origins = (Origin("nvml", NOW - 1, 2.0),)
    return snapshot(
        *(
            replace(
                device(number),
                readings=Readings(
                    shape,
                    tuple(
                        number_in_range(metric, 7 * number + position + seed) for position, metric in enumerate(metrics)
                    ),
                    origins,
                ),
            )
            for number in range(devices)
        ),
        sources=(source(),),
    )


@cache
def big_shape(readings_each):
    """Return the metrics of `readings_each` readings, and the shape that all devices share."""
    words = [(metric, word) for metric in DEVICE_METRICS for word in some_words(metric, 2)][:readings_each]
    keys = tuple((metric.key, word) for metric, word in words)
    return [metric for metric, _ in words], Shape(keys, (0,) * len(keys))


def some_words(metric: Metric, count):
    return metric.words[:count] or ("all",) if metric.label else ("",)


def number_in_range(metric: Metric, step):
    """Return a number for a step as tools print it: whole bytes, degrees and hertz, ratios with two digits."""
    span = {"ratio": 0.01, "bytes": 1048576.0, "hertz": 1e6, "watts": 0.5}.get(metric.unit, 1.0)
    return min(max(metric.low, 0.0) + span * (step % 97), metric.high)


# Texts as tools may print them, and hostile ones.
texts = st.text(max_size=8) | st.sampled_from(["", 'a"b', "a\\b", "a\nb", "\x1b[31mred", "\ud800", "天数智芯", "N/A"])
names = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)


@st.composite
def _readings_of(draw, metrics, most):
    """Draw readings that differ in metric or label, in the order of merge."""
    found = {}
    for metric in draw(st.lists(st.sampled_from(metrics).map(lambda item: item.key), max_size=most)):
        item = draw(_reading_of(BY_KEY[metric]))
        found[(item.metric, item.label)] = item
    return tuple(found.values())


@st.composite
def _reading_of(draw, metric):
    value = draw(st.none() | st.floats(max(metric.low, -1e18), min(metric.high, 1e18)))
    if value is None:
        value = draw(st.sampled_from(list(Absent)))
    label = ""
    if metric.label:
        label = draw(st.sampled_from(metric.words) if metric.words else names)
    source_name = draw(st.sampled_from(["nvml", "hy-smi", "host"]))
    return MergedReading(metric.key, label, value if isinstance(value, Absent) else value + 0.0, source_name)


moments = st.none() | st.floats(-1e18, 1e18) | st.floats(0, 4e9)
shares = st.floats(0, 1)
# Integers without a strategy of their own are counts of the daemon.
_drawn = Drawn(
    {
        str: texts,
        int: st.integers(0, 1 << 40),
        float: st.floats(0, 1e12),
        Maintenance: st.builds(Maintenance, st.none() | st.floats(-9e4, 3e6), texts),
        ReplayInfo: st.builds(ReplayInfo, st.floats(0, 4e9), texts),
    },
    most=2,
)
_processes = _drawn.build(
    Process,
    device=st.just(0),
    pid=st.integers(1, 4_000_000),
    memory_used_bytes=st.none() | st.integers(0, 1 << 40).map(float),
    utilization_ratio=st.none() | shares,
    started=moments,
)


@st.composite
def _allocations(draw):
    """Draw up to three owners of a device, whose shares add up to at most 1."""
    found = draw(st.lists(_drawn.of(Owner), max_size=3, unique_by=lambda owner: (owner.kind, owner.name)))
    share = shares.map(lambda share: share / len(found))
    return tuple(draw(_drawn.build(Allocation, owner=st.just(owner), share=share, started=moments)) for owner in found)


_devices = _drawn.build(
    MergedDevice,
    vendor=st.sampled_from(VENDOR_WORDS),
    index=st.none() | st.integers(0, 127),
    up=st.sampled_from([True, True, False, None]),
    replayed=st.just(False),
    facts=st.lists(st.tuples(names | texts, texts), max_size=3).map(tuple),
    readings=_readings_of(DEVICE_METRICS, 8),
    processes=st.lists(_processes, max_size=2).map(tuple),
    allocations=_allocations(),
)


_polls = _drawn.build(
    Health,
    source=st.just("nvml"),
    poll=names,
    attempted=st.floats(0, 1e10),
    attempted_monotonic=st.floats(0, NOW),
    expires=st.floats(0, 2 * NOW),
    seconds=st.floats(0, 1e4),
    last_success=st.none() | st.floats(0, 1e10),
    fails_since=st.none(),
    failures=st.lists(st.tuples(st.sampled_from(REASONS), st.integers(0, 1 << 40)), max_size=3).map(tuple),
)
_sources = _drawn.build(
    SourceStatus,
    source=st.sampled_from(["nvml", "hy-smi", "rocm-smi", "host", "npu-smi"]),
    vendor=st.sampled_from(VENDOR_WORDS),
    polls=st.lists(_polls, max_size=2).map(tuple),
    refused=st.just(0),
)


@st.composite
def _own_samples(draw):
    """Draw samples of the metrics that the daemon adds to a snapshot."""
    name = draw(st.sampled_from(FREE_OWN_METRICS))
    value = 1.0 if name.endswith("_info") else draw(st.floats(0, 1e9))
    return Sample(name, value, tuple((label, draw(texts)) for label in OWN_LABELS[name]))


def snapshots():
    return _drawn.build(
        Snapshot,
        wall_time=st.floats(0, 4e9),
        monotonic_time=st.just(NOW),
        valid_until=st.just(NOW + 8),
        devices=st.lists(_devices, max_size=3).map(tuple),
        host=_readings_of(HOST_METRICS, 3),
        sources=st.lists(_sources, max_size=2).map(tuple),
        daemon_samples=st.lists(_own_samples(), max_size=3).map(tuple),
    )
