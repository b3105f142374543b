"""Read the nodes in tests/nvml_fake/profiles and convert them to answers of the fake NVML."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kits.fake_nvml.build import level_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROFILES = Path(__file__).parents[2] / "nvml_fake" / "profiles"
_MIB = 1 << 20
# The first field number that each driver does not support (nvml.h of its branch).
_FIELDS_OF_DRIVER = {
    (450,): 147, (470,): 161, (525,): 187, (535,): 197, (550,): 200, (560,): 230, (570,): 269, (575,): 274,
    (580, 82): 289, (595,): 296, (610,): 303,
}  # fmt: skip
# The throttle counters' numbers changed between 580.65 and 580.82; before and after, 251 is power smoothing's.
_REASON_FIELDS = {(575,): (251, 252, 253), (580, 82): (269, 270, 271)}
_REASONS = ("sw_thermal", "hw_thermal", "hw_power_brake")
_SMOOTHING_FIELDS = {(570,): 251, (575,): 254, (580, 82): 251}
# In these versions the entries of process lists are 8 bytes longer than callers expect, who read garbage.
_LONG_PROCESS_ENTRIES = ((535, 43), (535, 86))
# A GPU under load: the range in which a number varies (~), or its growth per second (+), in mW, per cent, MHz or bytes.
_MOVES = {
    "nvmlDeviceGetPowerUsage": "~30000", "field.185.0": "~20000", "field.186.0": "~30000", "field.82.0": "~3",
    "nvmlDeviceGetTemperature.0": "~4", "nvmlDeviceGetUtilizationRates": "~2", "nvmlDeviceGetFanSpeed_v2.0": "~3",
    "nvmlDeviceGetClockInfo.0": "~45", "nvmlDeviceGetClockInfo.1": "~45", "nvmlDeviceGetPcieThroughput.0": "~90000",
    "nvmlDeviceGetPcieThroughput.1": "~90000", "nvmlDeviceGetTotalEnergyConsumption": "+648920",
    "field.138.all": "+91234567", "field.139.all": "+89876543", "field.140.all": "+101234567",
    "field.141.all": "+99876543", "gpm.1": "~1.5", "gpm.2": "~4.5", "gpm.3": "~6.25", "gpm.4": "~5.5", "gpm.5": "~8.0",
    "gpm.7": "~7.5", "gpm.10": "~9.5", "gpm.12": "~3.75", "gpm.20": "~90.0", "gpm.21": "~80.0",
    "gpm.60": "~50000.0", "gpm.61": "~50000.0",
}  # fmt: skip
# The driver counts for so long while the caller waits ("over a 20ms interval", nvml.h).
_MEASURING_US = {"nvmlDeviceGetPcieThroughput": 20_000}


@dataclass(frozen=True, slots=True)
class Key:
    """The key of an answer: a device, and the call with its selectors."""

    device: str
    call: str

    def __str__(self) -> str:
        return f"{self.device}.{self.call}"


@dataclass(frozen=True, slots=True)
class Profile:
    name: str
    document: Mapping[str, Any]
    # The suffix of an answer's number, by call or field: see the README of tests/nvml_fake.
    moves: Mapping[str, str] = field(default_factory=dict)

    @property
    def driver(self) -> str:
        return str(self.document["driver"])

    @property
    def gpus(self) -> int:
        return len(self.document["buses"])

    def with_gpus(self, count: int) -> Profile:
        """Return the node with `count` GPUs, at different bus addresses."""
        buses = [f"0000:{0x10 + number:02x}:00.0" for number in range(count)]
        return replace(self, document={**self.document, "buses": buses})

    def busy(self) -> Profile:
        """Return the node with numbers that change as under load."""
        return replace(self, moves=_MOVES)

    def answers(self, driver: str) -> dict[Key, str]:
        """Return all answers of the fake under a driver version."""
        version = version_of(driver)
        node = {
            "driver": driver,
            "kernel": str(level_of(driver)),
            "gpus": " ".join(map(str, range(self.gpus))),
            "field_limit": str(newest(_FIELDS_OF_DRIVER, version) or 0),
            "process_entry_bytes": "32" if _LONG_PROCESS_ENTRIES[0] <= version < _LONG_PROCESS_ENTRIES[1] else "24",
            "nvmlSystemGetDriverVersion": driver,
            "nvmlSystemGetNVMLVersion": f"{self.document['cuda'] // 1000}.{driver}",
            "nvmlSystemGetCudaDriverVersion": str(self.document["cuda"]),
        } | flat(self.document.get("node", {}))
        answers = {Key("node", call): text for call, text in node.items()}
        for index, (call, microseconds) in enumerate(_MEASURING_US.items()):
            answers[Key("delay", f"-{index}")] = f"{call} * {microseconds} 0 0"
        for number, bus in enumerate(self.document["buses"]):
            answers |= self._gpu(number, bus, version)
        return answers

    def _gpu(self, number: int, bus: str, version: tuple[int, ...]) -> dict[Key, str]:
        table = self.document["gpu"]
        device = f"gpu.{number}"
        names = {"n": number, "bus": bus}
        migs = self.document.get("mig", [])
        answers = {Key("node", f"migs.{number}"): " ".join(map(str, range(len(migs))))}
        texts = {"nvmlDeviceGetPciInfo_v3": pci_text(bus, table["pci"]), "nvmlDeviceGetMinorNumber": str(number)}
        texts |= readings(table, names) | reason_fields(table, version) | smoothing_fields(table, version)
        answers |= {Key(device, call): self._moving(call, text) for call, text in texts.items()}
        for index, mig in enumerate(migs):
            found = readings(mig, names | {"m": index})
            answers |= {Key(f"mig.{number}.{index}", call): text for call, text in found.items()}
        return answers

    def _moving(self, call: str, text: str) -> str:
        """Add to an answer how its first number changes; leave refusals unchanged."""
        move = self.moves.get(call)
        first, space, rest = text.partition(" ") if not call.startswith("field.") else (text, "", "")
        return text if move is None or text.startswith("!") else f"{first}{move}{space}{rest}"


def load_profile(name: str) -> Profile:
    """Return the node in a file, merged with the file that it extends."""
    with (PROFILES / f"{name}.toml").open("rb") as file:
        document = tomllib.load(file)
    parent = document.pop("extends", None)
    return Profile(name, merged(load_profile(parent).document, document) if parent else document)


def load_costs(card: str) -> dict[str, int]:
    """Return the driver's CPU time in µs for each call and field of a card."""
    with (PROFILES.parent / "costs.toml").open("rb") as file:
        costs: dict[str, int] = tomllib.load(file)[card]
        return costs


def profile_names() -> list[str]:
    return sorted(path.stem for path in PROFILES.glob("*.toml"))


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge nested tables; the values of `above` win."""
    both = {**below, **above}
    for key in below.keys() & above.keys():
        if isinstance(below[key], Mapping) and isinstance(above[key], Mapping):
            both[key] = merged(below[key], above[key])
    return both


def readings(table: Mapping[str, Any], names: Mapping[str, object]) -> dict[str, str]:
    """Return the answers of a profile's table: calls, and the shorthands of fields, memory, links and processes."""
    calls = {key: value for key, value in table.items() if key.startswith("nvml") or key == "gpm"}
    found = nvlink_texts(table.get("nvlink")) | memory_texts(table.get("memory"))
    found |= process_texts(table.get("processes", {})) | field_texts(table.get("field", {})) | flat(calls)
    return {call: text.format(**names) if "{" in text else text for call, text in found.items()}


def flat(table: Mapping[str, Any], before: str = "") -> dict[str, str]:
    """Join selectors with dots, and answers as words."""
    found: dict[str, str] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{before}{key}.")
        else:
            found[before + key] = " ".join(_word(item) for item in (value if isinstance(value, list) else [value]))
    return found


def _word(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def field_texts(fields: Mapping[str, Any]) -> dict[str, str]:
    """Parse `82 = ["uint", 40]`, `"185.1"` for another scope, `"138.all"` for all links, or a refusal, `"!4"`."""
    texts = {}
    for number, value in fields.items():
        key = number if "." in number else f"{number}.0"
        texts[f"field.{key}"] = value if isinstance(value, str) else field_text(*value)
    return texts


def field_text(kind: str, value: float) -> str:
    return f"{kind} {value!r}"


def memory_texts(memory: Mapping[str, int] | None) -> dict[str, str]:
    """Return the answers of both memory calls, from MiB; the older call counts reserved memory as used."""
    if memory is None:
        return {}
    total, reserved, used = (memory[word] * _MIB for word in ("total_mib", "reserved_mib", "used_mib"))
    free = total - reserved - used
    return {
        "nvmlDeviceGetMemoryInfo": f"{total} {free} {used + reserved}",
        "nvmlDeviceGetMemoryInfo_v2": f"{total} {reserved} {free} {used}",
    }


def nvlink_texts(nvlink: Mapping[str, int] | None) -> dict[str, str]:
    """Return links that are all up and without errors."""
    if nvlink is None:
        return {}
    texts = {"field.91.0": field_text("uint", nvlink["links"])}
    for link in range(nvlink["links"]):
        texts[f"nvmlDeviceGetNvLinkState.{link}"] = "1"
        texts[f"nvmlDeviceGetNvLinkVersion.{link}"] = str(nvlink["version"])
        texts[f"field.164.{link}"] = field_text("uint", nvlink["speed_mbps"])
        texts[f"field.165.{link}"] = field_text("uint", 1)
        counters = range(nvlink.get("error_counters", 0))
        texts |= {f"nvmlDeviceGetNvLinkErrorCounter.{link}.{counter}": "0" for counter in counters}
    return texts


def process_texts(lists: Mapping[str, Any]) -> dict[str, str]:
    """Return lists of `[pid, bytes, GPU instance, compute instance]`, or a refusal."""
    return {
        f"nvmlDeviceGet{kind}RunningProcesses": processes
        if isinstance(processes, str)
        else " ".join(process_text(*process) for process in processes)
        for kind, processes in lists.items()
    }


def process_text(
    pid: int,
    memory: int | str | None = None,
    gpu_instance: int | str | None = None,
    compute_instance: int | str | None = None,
) -> str:
    """Format a process for the state file; `-` is a value that the driver does not report."""
    words = (pid, memory, gpu_instance, compute_instance)
    return ":".join("-" if word is None else str(word) for word in words)


def pci_text(bus: str, pci: Mapping[str, int]) -> str:
    """Format domain, bus, device, device id, subsystem id."""
    domain, number, device = bus.partition(".")[0].split(":")
    return f"{int(domain, 16)} {int(number, 16)} {int(device, 16)} {pci['device']} {pci['subsystem']}"


def reason_fields(table: Mapping[str, Any], version: tuple[int, ...]) -> dict[str, str]:
    """Return the throttle counters in nanoseconds, whose field numbers depend on the driver."""
    numbers = newest(_REASON_FIELDS, version)
    reasons = table.get("reason_ns")
    if numbers is None or reasons is None:
        return {}
    pairs = zip(numbers, _REASONS, strict=True)
    return {f"field.{number}.0": field_text("ullong", reasons[word]) for number, word in pairs}


def smoothing_fields(table: Mapping[str, Any], version: tuple[int, ...]) -> dict[str, str]:
    """Return the fields of power smoothing, which readers with old constants mistake for throttle counters."""
    first = newest(_SMOOTHING_FIELDS, version)
    values = table.get("power_smoothing", [])
    if first is None:
        return {}
    return {f"field.{first + index}.0": field_text("uint", value) for index, value in enumerate(values)}


def version_of(driver: str) -> tuple[int, ...]:
    return tuple(int(part) for part in driver.split("."))


def newest(table: Mapping[tuple[int, ...], Any], version: tuple[int, ...]) -> Any:
    """Return the value of the newest row that is not newer than the version; None if all are newer."""
    rows: Iterator[tuple[int, ...]] = (row for row in table if row <= version)
    found = max(rows, default=None)
    return None if found is None else table[found]
