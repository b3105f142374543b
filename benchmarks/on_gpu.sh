#!/bin/sh
# Measure everything of interest on a node with a real NVIDIA GPU, unattended, in less than 8 minutes:
#
#     benchmarks/on_gpu.sh [--out FOLDER] [--seconds 60] [--alone]
#
# The script measures what NVML's calls cost, our daemon beside nvitop-exporter and all-smi (idle and under load), our
# readings beside nvidia-smi's of the same second, and a Recorder's energy beside the counter. It also makes a recording.
# The results are in a folder below tests/nvml, named after GPU and driver; summary.txt is the summary.
# Without .venv, the script creates one, which needs a network.
set -eu
cd "$(dirname "$0")/.."
if [ ! -x .venv/bin/python ]; then
    make .venv/.installed-dev
fi
exec .venv/bin/python benchmarks/on_gpu.py "$@"
