"""Measure what NVML's calls cost on this machine: time and CPU of each call and field on one GPU.

    pip install nvidia-ml-py
    python nvml_cost.py [--gpu 0] [--seconds 60] [--json nvml-cost.json]

The script needs Python 3.8 and nvidia-ml-py only. It changes nothing on the GPU, and makes each call 200 times in a minute, with
pauses in which other programs can use the driver. The JSON file names GPU, driver and kernel, but contains no serial number,
UUID, bus address or host name. Please send it to us.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import sys
import time
from pathlib import Path

import pynvml

_ROUNDS = 200
_MEMORY_V2 = 0x02000028
# (function of pynvml without `nvmlDeviceGet`, arguments after the handle)
_CALLS = (
    ("UtilizationRates",), ("MemoryInfo",), ("MemoryInfo", _MEMORY_V2), ("TemperatureV", 0), ("Temperature", 0),
    ("ClockInfo", 0), ("ClockInfo", 1), ("ClockInfo", 2), ("ClockInfo", 3), ("CurrentClocksEventReasons",),
    ("CurrentClocksThrottleReasons",), ("PerformanceState",), ("PowerUsage",), ("TotalEnergyConsumption",),
    ("EnforcedPowerLimit",), ("FanSpeed",), ("FanSpeed_v2", 0), ("MarginTemperature",), ("BAR1MemoryInfo",),
    ("CurrPcieLinkGeneration",), ("CurrPcieLinkWidth",), ("PcieReplayCounter",), ("EncoderUtilization",),
    ("DecoderUtilization",), ("JpgUtilization",), ("OfaUtilization",), ("EccMode",), ("TotalEccErrors", 0, 0),
    ("MemoryErrorCounter", 0, 0, 2), ("MemoryErrorCounter", 1, 0, 2), ("MemoryErrorCounter", 0, 0, 7),
    ("MemoryErrorCounter", 1, 0, 7), ("MemoryErrorCounter", 0, 1, 2), ("RemappedRows",), ("NvLinkState", 0),
    ("ComputeRunningProcesses",), ("GraphicsRunningProcesses",), ("MPSComputeRunningProcesses",),
    ("ProcessUtilization", 0), ("MigMode",), ("Name",), ("UUID",), ("Serial",), ("PciInfo",), ("VbiosVersion",),
    ("InforomImageVersion",), ("GspFirmwareVersion",), ("BoardPartNumber",), ("MaxClockInfo", 1),
    ("TemperatureThreshold", 0), ("MaxPcieLinkGeneration",), ("NumaNodeId",), ("MemoryAffinity", 1, 0),
    ("PersistenceMode",), ("ComputeMode",), ("AddressingMode",), ("ModuleId",),
)  # fmt: skip
_ALL_LINKS = 0xFFFFFFFF
# (field number, scope)
_FIELDS = (
    (82, 0), (185, 0), (186, 0), (185, 1), (185, 2), (83, 0), (191, 0), (74, 0), (75, 0), (76, 0), (77, 0), (78, 0),
    (79, 0), (251, 0), (252, 0), (253, 0), (269, 0), (270, 0), (271, 0), (3, 0), (4, 0), (11, 0), (12, 0), (29, 0),
    (30, 0), (31, 0), (94, 0), (95, 0), (142, 0), (143, 0), (144, 0), (145, 0), (169, 0), (173, 0), (187, 0), (188, 0),
    (189, 0), (190, 0), (193, 0), (197, 0), (198, 0), (230, 0), (91, 0), (165, 0), (138, 0), (138, _ALL_LINKS),
    (139, _ALL_LINKS), (161, 0), (163, 0), (202, 0), (202, _ALL_LINKS),
)  # fmt: skip
# A poll reads the fields of a batch with one call.
_BATCHES = {
    "fields of a fast poll": ((185, 0), (186, 0), (185, 1), (185, 2), (82, 0)),
    "fields of a poll of counters": tuple((number, 0) for number in (83, 74, 75, 76, 77, 79, 269, 270, 271)),
}
_GPM_METRICS = (1, 2, 3, 5, 10)


class Row:
    """A call or field, with the duration of each try and its errors by number."""

    def __init__(self, name, call_once):
        self.name = name
        self.call_once = call_once
        self.wall, self.cpu, self.errors = [], [], {}

    def run(self):
        """Make the call once more, unless all tries so far have failed. A field returns its error as a code."""
        if self.errors and not self.wall:
            return
        wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
        try:
            code = self.call_once()
        except pynvml.NVMLError as error:
            code = error.value
        except (AttributeError, TypeError):  # The binding or the driver does not have this function.
            code = "missing"
        cpu, wall = time.thread_time_ns() - cpu, time.perf_counter_ns() - wall
        if code:
            self.errors[str(code)] = self.errors.get(str(code), 0) + 1
        else:
            self.wall.append(wall / 1e3)
            self.cpu.append(cpu / 1e3)

    def result(self):
        return {
            "name": self.name,
            "tries": len(self.wall),
            "median_us": quantile(self.wall, 0.5),
            "p99_us": quantile(self.wall, 0.99),
            "cpu_median_us": quantile(self.cpu, 0.5),
            "errors": self.errors,
        }


def quantile(numbers, part):
    """Return the value below which this part of the numbers is, or None if there are no numbers."""
    ordered = sorted(numbers)
    return round(ordered[min(len(ordered) - 1, int(part * len(ordered)))], 1) if ordered else None


def device_call(name, handle, *arguments):
    function = getattr(pynvml, f"nvmlDeviceGet{name}", None)

    def call_once():
        if function is None:
            raise AttributeError(name)
        function(handle, *arguments)

    return call_once


def field_call(handle, field_ids):
    """Return a function that reads these fields once. It returns the error if all fields have an error."""

    def call_once():
        codes = [item.nvmlReturn for item in pynvml.nvmlDeviceGetFieldValues(handle, list(field_ids))]
        return 0 if 0 in codes else codes[0]

    return call_once


def gpm_rows(handle):
    """Return rows that take a GPM sample and compare two samples. Return no rows if the GPU does not support GPM."""
    try:
        if not pynvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
            return []
        samples = [pynvml.nvmlGpmSampleAlloc() for _ in range(2)]
        pynvml.nvmlGpmSampleGet(handle, samples[0])
    except (pynvml.NVMLError, AttributeError) as error:
        print(f"GPM is not measured: {error}", file=sys.stderr)
        return []

    def sample():
        samples.reverse()
        pynvml.nvmlGpmSampleGet(handle, samples[1])

    def compare():
        request = pynvml.c_nvmlGpmMetricsGet_t()
        request.version, request.numMetrics = 1, len(_GPM_METRICS)
        request.sample1, request.sample2 = samples
        for position, number in enumerate(_GPM_METRICS):
            request.metrics[position].metricId = number
        pynvml.nvmlGpmMetricsGet(request)

    return [Row("GpmSampleGet", sample), Row("GpmMetricsGet", compare)]


def rows(handle):
    result = [
        Row(".".join(map(str, (name, *arguments))), device_call(name, handle, *arguments))
        for name, *arguments in _CALLS
    ]
    for number, scope in _FIELDS:
        scope_text = {0: "", _ALL_LINKS: ", all links"}.get(scope, f", scope {scope}")
        result.append(Row(f"field {number}{scope_text}", field_call(handle, [(number, scope)])))
    result += [Row(name, field_call(handle, batch)) for name, batch in _BATCHES.items()]
    return result + gpm_rows(handle)


def measure(measured, seconds, rounds):
    """Make all calls once per round. The rounds begin at equal intervals."""
    begin = time.monotonic()
    for turn in range(rounds):
        # The rounds begin at equal intervals, as polls do.
        time.sleep(max(0.0, begin + turn * seconds / rounds - time.monotonic()))
        for row in measured:
            row.run()


def build_document(handle, measured, usage):
    return {
        "schema": "telemetry.nvml_cost/1",
        "gpu": pynvml.nvmlDeviceGetName(handle),
        "gpus": pynvml.nvmlDeviceGetCount(),
        "driver": pynvml.nvmlSystemGetDriverVersion(),
        "library": pynvml.nvmlSystemGetNVMLVersion(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "cpu_seconds": {"user": round(usage.ru_utime, 3), "kernel": round(usage.ru_stime, 3)},
        "calls": [row.result() for row in measured],
    }


def print_table(document):
    """Print the table with the most expensive call first."""
    print(f"{document['gpu']}, driver {document['driver']}, CPU s {document['cpu_seconds']}")
    print(f"{'call or field':40} {'median µs':>10} {'p99 µs':>10} {'CPU µs':>10}  errors")
    for row in sorted(document["calls"], key=lambda row: -(row["median_us"] or 0)):
        numbers = "".join(
            f"{'–' if row[key] is None else row[key]:>11}" for key in ("median_us", "p99_us", "cpu_median_us")
        )
        print(f"{row['name']:40}{numbers}  {row['errors'] or ''}".rstrip())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", type=int, default=0, help="index of the GPU")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rounds", type=int, default=_ROUNDS, help="how often each call is made")
    parser.add_argument("--json", type=Path, default=Path("nvml-cost.json"), metavar="FILE")
    options = parser.parse_args()
    try:
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(options.gpu)
    except pynvml.NVMLError as error:
        print(f"nvml_cost.py: GPU {options.gpu} cannot be opened: {error}", file=sys.stderr)
        return 1
    measured = rows(handle)
    measure(measured, options.seconds, options.rounds)
    document = build_document(handle, measured, resource.getrusage(resource.RUSAGE_SELF))
    print_table(document)
    options.json.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    pynvml.nvmlShutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
