"""A fake NVML for tests: built from tests/nvml_fake, loaded by the real pynvml, controlled by a file at run time.

    fake = FakeNvml(tmp_path, "h100")
    process = start_daemon(environment=fake.environment)   # or pynvml in a child process
    fake.lose(3)                                           # its next call returns NVML_ERROR_GPU_IS_LOST
    assert fake.calls("nvmlDeviceGetPcieThroughput") == 0

The argument `where` is `0` for the first GPU, `"0/1"` for the second MIG device on it, NODE for calls without a device,
EVERYWHERE for all of them. A rule for a GPU applies to its MIG devices, too. Calls have their names in the library,
`nvmlDeviceGetCount_v2`, followed by the selector of the reading: `nvmlDeviceGetClockInfo.1`. A call that neither the
profile nor the test answers returns NOT_SUPPORTED.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kits import compiled
from kits.fake_nvml.build import level_of, library
from kits.fake_nvml.profile import Key, Profile, field_text, load_costs, load_profile, process_text
from kits.fake_nvml.tally import ANY, Tally

LIBRARY = "libnvidia-ml.so.1"
EVERYWHERE = "*"
SPENT = "driver µs"
NODE = "node"
ALL_LINKS = 0xFFFFFFFF
INIT_CALLS = ("nvmlInitWithFlags", "nvmlInit_v2")
XID_EVENT = 0x8

NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND = 3, 4, 6
DRIVER_NOT_LOADED, TIMEOUT, GPU_IS_LOST, RESET_REQUIRED, OPERATING_SYSTEM = 9, 10, 15, 16, 17
LIB_RM_VERSION_MISMATCH, NO_DATA, GPU_NOT_FOUND, UNKNOWN = 18, 21, 28, 999

Where = int | str


@dataclass(frozen=True, slots=True)
class Process:
    """A process on a GPU. Memory is None if the driver does not report it; instances are for MIG devices."""

    pid: int
    memory_bytes: int | None = 0
    gpu_instance: int | None = None
    compute_instance: int | None = None


class FakeNvml:
    """NVML of one node in a folder: library, answers and recorded calls. Changes apply from the next call on."""

    def __init__(self, folder: Path, profile: str | Profile = "h100", *, driver: str | None = None) -> None:
        """`profile` is the name of a file in tests/nvml_fake/profiles, or a profile with changes, such as
        `load_profile("h100").with_gpus(64).busy()`; `driver` replaces its driver version."""
        self.folder = folder
        self.profile = load_profile(profile) if isinstance(profile, str) else profile
        folder.mkdir(parents=True, exist_ok=True)
        self.tally = Tally(folder / "calls")
        self._changed_answers: dict[Key, str] = {}
        self._rules: list[tuple[str, str]] = []
        self._events: list[str] = []
        self._costs: Mapping[str, int] = {}
        self._lost: dict[str, tuple[str, str]] = {}
        self._writes = 0
        self.driver(driver or self.profile.driver)

    # --- installation

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment in which a process finds this library, which must exist when it starts."""
        paths = [str(self.folder), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
        return {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(paths)}

    @property
    def library(self) -> Path:
        return self.folder / LIBRARY

    def uninstall(self) -> None:
        """Remove the library; processes that have loaded it keep it."""
        self.library.unlink(missing_ok=True)

    def install(self) -> None:
        compiled.copied(library(level_of(self._version)), self.library)

    def driver(self, version: str) -> None:
        """Install another driver version: library, calls and field numbers. A process with a library of another branch
        gets a version mismatch at its next initialisation; a new process does not."""
        self._version = version
        self._from_profile = self.profile.answers(version)
        self._write()
        self.install()

    def set_answer(self, where: Where, call: str, *answer: object) -> None:
        """Set the answer of a call, one or more words: `set_answer(0, "nvmlDeviceGetEccMode", 1, 0)`."""
        self._changed_answers[_key(where, call)] = " ".join(str(word) for word in answer)
        self._write()

    def refuse(self, where: Where, call: str, code: int = NOT_SUPPORTED) -> None:
        """Let a call return this error from now on."""
        self.set_answer(where, call, f"!{code}")

    def field(self, where: Where, number: int, value: float, *, kind: str = "uint", scope: int = 0) -> None:
        """Set a field of nvmlDeviceGetFieldValues; kinds: double uint ulong ullong llong int ushort."""
        self.set_answer(where, _field(number, scope), field_text(kind, value))

    def refuse_field(self, where: Where, number: int, code: int = NOT_SUPPORTED, *, scope: int = 0) -> None:
        """Let one field return this error; the call as a whole succeeds."""
        self.set_answer(where, _field(number, scope), f"!{code}")

    def memory(self, where: Where, *, total: int, used: int, reserved: int = 0) -> None:
        """Set the device's memory in bytes for both calls; the older call counts reserved memory as used."""
        free = total - used - reserved
        self._changed_answers[_key(where, "nvmlDeviceGetMemoryInfo")] = f"{total} {free} {used + reserved}"
        self._changed_answers[_key(where, "nvmlDeviceGetMemoryInfo_v2")] = f"{total} {reserved} {free} {used}"
        self._write()

    def processes(self, where: Where, processes: Sequence[Process], kind: str = "Compute") -> None:
        """Set the processes on a device; kinds: Compute, Graphics, MPSCompute."""
        words = (process_text(p.pid, p.memory_bytes, p.gpu_instance, p.compute_instance) for p in processes)
        self.set_answer(where, f"nvmlDeviceGet{kind}RunningProcesses", *words)

    def cost(self, card: str) -> None:
        """Let calls and fields take as much CPU as the driver of this card: `h200` or `rtx4090`, see costs.toml."""
        self._costs = load_costs(card)
        self._write()

    # --- faults

    def fail(
        self, call: str, code: int, where: Where = EVERYWHERE, *, times: int | None = None, after: int = 0
    ) -> None:
        """Let a call (or every call, "*") return this error, the next `times` times or until `heal`, after `after` more
        good answers. Code 0 means success without a result."""
        self._rule("fault", call, where, code, times, after)

    def init_fails(self, code: int, *, times: int | None = None) -> None:
        for call in INIT_CALLS:
            self._rules.append(("fault", self._rule_text(call, NODE, code, times, 0)))
        self._write()

    def hang(self, call: str, seconds: float, where: Where = EVERYWHERE, *, times: int | None = None) -> None:
        """Delay a call by this time, or until `heal`; only the calling thread waits."""
        self._rule("delay", call, where, round(seconds * 1e6), times, 0)

    def heal(self) -> None:
        """End what `fail`, `init_fails`, `hang` and `lose` began; calls that hang return now."""
        self._rules.clear()
        self._lost.clear()
        self._write()

    def lose(self, gpu: int, after_calls: int = 0) -> None:
        """Let the GPU fall off the bus: its calls return GPU_IS_LOST, at once or after some more calls."""
        self._lost[str(gpu)] = ("fault", self._rule_text(ANY, gpu, GPU_IS_LOST, None, after_calls))
        self._write()

    def unplug(self, where: Where) -> None:
        """Remove a GPU, or a MIG device (which readers notice at the next initialisation)."""
        self._change_presence(where, lambda present, number: [device for device in present if device != number])

    def plug(self, where: Where) -> None:
        self._change_presence(where, lambda present, number: sorted({*present, number}))

    def xid(self, where: Where, code: int) -> None:
        """Send an Xid event to the callers of nvmlEventSetWait_v2."""
        self.event(where, XID_EVENT, code)

    def event(self, where: Where, kind: int, data: int = 0) -> None:
        """Send any event; that of a MIG device carries its instances."""
        gpu, _, mig = str(where).partition("/")
        instances = ["-", "-"]
        if mig:
            calls = ("nvmlDeviceGetGpuInstanceId", "nvmlDeviceGetComputeInstanceId")
            instances = [self._answers()[_key(where, call)] for call in calls]
        self._events.append(" ".join([gpu, str(kind), str(data), *instances]))
        self._write()

    # --- recorded calls

    def calls(self, call: str = ANY, where: Where = EVERYWHERE) -> int:
        """Return how often all processes made a call ("*": any call). A GPU's calls include its MIG devices'."""
        return self.tally.count(call, str(where))

    def driver_seconds(self) -> float:
        """Return the CPU time of all calls that have a cost."""
        return self.calls(SPENT) / 1e6

    def counts(self, where: Where = EVERYWHERE) -> dict[str, int]:
        return self.tally.counts(str(where))

    # --- control files

    def _rule(self, what: str, call: str, where: Where, number: int, times: int | None, after: int) -> None:
        self._rules.append((what, self._rule_text(call, where, number, times, after)))
        self._write()

    def _rule_text(self, call: str, where: Where, number: int, times: int | None, after: int) -> str:
        first = self.calls(call, where) + after
        last = 0 if times is None else first + times
        return f"{call} {where} {number} {first} {last}"

    def _change_presence(self, where: Where, change: Callable[[list[int], int], list[int]]) -> None:
        gpu, _, mig = str(where).partition("/")
        key = Key(NODE, f"migs.{gpu}") if mig else Key(NODE, "gpus")
        present = change([int(word) for word in self._answers().get(key, "").split()], int(mig or gpu))
        self._changed_answers[key] = " ".join(map(str, present))
        self._write()

    def _answers(self) -> dict[Key, str]:
        return {**self._from_profile, **self._changed_answers}

    def _write(self) -> None:
        lines = {str(key): text for key, text in self._answers().items()}
        rules = [*self._rules, *self._lost.values()]
        lines |= {f"{what}.{number:08d}": text for number, (what, text) in enumerate(rules)}
        lines |= {f"event.{number:08d}": text for number, text in enumerate(self._events, start=1)}
        lines |= {f"cost.{what}": str(microseconds) for what, microseconds in self._costs.items()}
        lines["node.events"] = str(len(self._events))
        self._writes += 1
        new = self.folder / "state.new"
        new.write_text("".join(f"{key}={lines[key]}\n" for key in sorted(lines)), "utf-8", errors="surrogateescape")
        # Readers distinguish two states by this time, and the clock may return the same time for both.
        os.utime(new, ns=(self._writes, self._writes))
        new.replace(self.folder / "state")


def _key(where: Where, call: str) -> Key:
    device = str(where)
    if device == NODE:
        return Key(NODE, call)
    return Key(f"mig.{device.replace('/', '.')}" if "/" in device else f"gpu.{device}", call)


def _field(number: int, scope: int) -> str:
    return f"field.{number}.{'all' if scope == ALL_LINKS else scope}"


def main(arguments: list[str]) -> int:
    """Run a command with a fake NVML: `python -m kits.fake_nvml.library h100 FOLDER telemetry snapshot`."""
    if len(arguments) < 3:
        print("usage: python -m kits.fake_nvml.library PROFILE FOLDER COMMAND…", file=sys.stderr)
        return 64
    profile, folder, *command = arguments
    return subprocess.run(command, env=FakeNvml(Path(folder), profile).environment).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
