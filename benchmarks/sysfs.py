"""One poll of eight AMD cards: through the driver's files, and through rocm-smi where it is installed.

    python benchmarks/sysfs.py

The files are a tree below a temporary folder, so no driver answers: what is measured is our own cost and the kernel's
of opening and reading. rocm-smi without a card shows what its start alone costs; with cards it takes 1 to 3 s.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from kits.fake_sysfs import PARSER, Sysfs, mi210
from kits.files import read_files
from telemetry_daemon.readers import files
from telemetry_parsers.codec.derived import to_plain
from telemetry_parsers.model import Capture, Files

CARDS = 8
ROUNDS = 50


def per_round(work: Callable[[], object]) -> tuple[float, float]:
    """Wall and CPU seconds of one round, the best of five series."""
    best = (float("inf"), float("inf"))
    for _ in range(5):
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(ROUNDS):
            work()
        best = min(best, ((time.perf_counter() - wall) / ROUNDS, (time.process_time() - cpu) / ROUNDS))
    return best


def syscalls(folder: Path) -> str:
    """The system calls of one read by strace, where it is installed."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    program = (
        f"import sys; sys.path = {sys.path!r}\n"
        "from telemetry_daemon.readers.files import read_files\nfrom telemetry_parsers.codec.derived import to_plain\n"
        f"from telemetry_parsers.vendors.amd.amdgpu_sysfs import PARSER\nrequest = PARSER.polls[0].request\n"
        f"[read_files(to_plain(type(request), request), {str(folder)!r}) for _ in range({{rounds}})]\n"
    )

    def count(rounds: int) -> int:
        command = ["strace", "-c", "-f", sys.executable, "-c", program.replace("{rounds}", str(rounds))]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        total = next(line for line in done.stderr.splitlines() if line.rstrip().endswith("total"))
        return int(total.split()[3] if len(total.split()) > 3 else total.split()[-2])

    return f"{(count(11) - count(1)) / 10:.0f}"


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as name:
        sysfs = Sysfs(Path(name))
        for card in range(CARDS):
            sysfs.card(f"0000:{0x29 + 4 * card:02x}:00.0", mi210())
        poll = PARSER.polls[0]
        assert isinstance(poll.request, Files)
        request = poll.request
        plain, root = to_plain(Files, request), str(sysfs.root)
        read = per_round(lambda: files.read_files(plain, root))
        outputs = read_files(request, sysfs.root)
        capture = Capture(PARSER.name, poll.name, request, outputs)
        parse = per_round(lambda: PARSER.parse(capture))
        print(f"| {CARDS} cards, one poll | wall | CPU |\n|---|---|---|")
        print(f"| read {len(outputs)} files | {1e6 * read[0]:.0f} µs | {1e6 * read[1]:.0f} µs |")
        print(f"| parse them | {1e6 * parse[0]:.0f} µs | {1e6 * parse[1]:.0f} µs |")
        print(f"| system calls of the read | {syscalls(Path(name))} | |")
    if shutil.which("rocm-smi"):
        start = time.perf_counter()
        subprocess.run(
            ["rocm-smi", "--showtemp", "--showpower", "--showuse", "--json"], check=False, capture_output=True
        )
        print(f"| start of rocm-smi, no card | {1e6 * (time.perf_counter() - start):.0f} µs | |")


if __name__ == "__main__":
    main()
