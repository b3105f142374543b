"""A fake `nvidia-smi` for exporters that start the tool: -L, --help-query-gpu and --query-gpu as CSV, from prepared text."""

from __future__ import annotations

from pathlib import Path

# (name in --query-gpu, suffix of the heading, value)
FIELDS = (
    ("timestamp", "", "2026/05/28 21:26:40.123"),
    ("driver_version", "", "580.105.08"),
    ("count", "", "{count}"),
    ("index", "", "{index}"),
    ("name", "", "NVIDIA H100 80GB HBM3"),
    ("uuid", "", "{uuid}"),
    ("serial", "", "16523230{index:05d}"),
    ("pci.bus_id", "", "00000000:{index:02X}:00.0"),
    ("vbios_version", "", "96.00.89.00.01"),
    ("pstate", "", "P0"),
    ("fan.speed", " [%]", "[N/A]"),
    ("temperature.gpu", "", "54"),
    ("temperature.memory", "", "61"),
    ("utilization.gpu", " [%]", "98 %"),
    ("utilization.memory", " [%]", "41 %"),
    ("memory.total", " [MiB]", "81559 MiB"),
    ("memory.used", " [MiB]", "61440 MiB"),
    ("memory.free", " [MiB]", "19568 MiB"),
    ("power.draw", " [W]", "648.92 W"),
    ("power.limit", " [W]", "700.00 W"),
    ("power.default_limit", " [W]", "700.00 W"),
    ("clocks.current.graphics", " [MHz]", "1980 MHz"),
    ("clocks.current.sm", " [MHz]", "1980 MHz"),
    ("clocks.current.memory", " [MHz]", "2619 MHz"),
    ("pcie.link.gen.current", "", "5"),
    ("pcie.link.width.current", "", "16"),
    ("ecc.errors.corrected.volatile.total", "", "0"),
    ("ecc.errors.uncorrected.volatile.total", "", "0"),
)
_SCRIPT = """#!/bin/sh
# Prints the columns asked for, in their order, as the tool does.
here=$(dirname "$0")
for word in "$@"; do
    case "$word" in
        --help-query-gpu) exec cat "$here/help" ;;
        -L) exec cat "$here/list" ;;
        --query-gpu=*) fields=${word#--query-gpu=} ;;
    esac
done
exec awk -F ', ' -v wanted="$fields" '
    BEGIN { n = split(wanted, names, ",") }
    NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
    { for (i = 1; i <= n; i++) printf "%s%s", $column[names[i]], i < n ? ", " : "\\n" }
' "$here/table"
"""


def uuid_of(index: int) -> str:
    """Return the uuid that both outputs contain."""
    return f"GPU-5f1c2a90-77b3-4d0e-9a51-0c3e880{index:05d}"


def write_tool(folder: Path, count: int) -> Path:
    """Write the tool for `count` GPUs into a folder, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [name for name, _, _ in FIELDS]
    headings = [f"{name}{unit}" for name, unit, _ in FIELDS]
    rows = [
        [value.format(index=index, count=count, uuid=uuid_of(index)) for _, _, value in FIELDS]
        for index in range(count)
    ]
    (folder / "table").write_text("".join(f"{', '.join(row)}\n" for row in (names, headings, *rows)))
    lines = (f"GPU {index}: NVIDIA H100 80GB HBM3 (UUID: {uuid_of(index)})\n" for index in range(count))
    (folder / "list").write_text("".join(lines))
    (folder / "help").write_text("".join(f'"{name}"\nOne of the fields.\n\n' for name in names))
    tool = folder / "nvidia-smi"
    tool.write_text(_SCRIPT)
    tool.chmod(0o755)
    return folder
