"""Examples of every command, for its help and for the manual page."""

from __future__ import annotations

from collections.abc import Mapping

# By command: what is typed, and what it is for.
EXAMPLES: Mapping[str, Mapping[str, str]] = {
    "serve": {
        "telemetry serve": "Serve the metrics of this node.",
        "telemetry serve --demo 8xnvidia,4xhygon": "Serve a simulated node.",
        "telemetry serve --replay node.jsonl.gz --speed 10": "Serve what was recorded on another node, ten times as fast.",
    },
    "replay": {
        "telemetry replay seek 03:12:07": "Have the daemon that plays a recording go there.",
        "telemetry replay pause": "Have it stand still.",
    },
    "snapshot": {
        "telemetry snapshot": "Show all accelerators, and what is wrong with them.",
        "telemetry snapshot --why": "Say why readings are absent, too.",
        "telemetry snapshot --all 'temp*' --device 3": "Show all temperatures of one device, read just now.",
        "telemetry snapshot --format json --watch 10s": "Print a line of JSON every ten seconds.",
        "telemetry snapshot --replay node.jsonl.gz --at 03:12:07": "Show a moment of a recording.",
        "telemetry snapshot --node gpu-17": "Show what the daemon of another node tells.",
    },
    "top": {
        "telemetry top": "Watch this node, with its last half hour.",
        "telemetry top gpu-17 gpu-18": "Watch two nodes.",
        "telemetry top --demo 8xnvidia": "See what it looks like.",
        "telemetry top --replay node.jsonl.gz --at end-30s": "Watch how a recording ends.",
    },
    "doctor": {
        "telemetry doctor": "Check what is found on this node.",
        "telemetry doctor --source nvml --all": "Look at one source with every detail.",
        "telemetry doctor --bundle bug.tar.gz": "Write all that a bug report needs, without what identifies the node.",
        "telemetry doctor --node gpu07 --format json": "What the daemon of another node tells of it, for a program.",
    },
    "record": {
        "telemetry record -o node.jsonl.gz --for 60s": "Record a minute for a bug report.",
        "telemetry record -o node.jsonl.gz --before --for 10s": "Record the two minutes before as well, which the daemon has.",
    },
    "jobs": {
        "telemetry jobs --since 30d --by user": "Show what each user had of this node's cards in a month.",
        "telemetry jobs gpu-17.jsonl gpu-18.jsonl --format csv": "Add up the records of two nodes for a spreadsheet.",
    },
    "profile": {
        "telemetry profile trace.json.gz": "Say why the steps in a trace are slow.",
        "telemetry profile traces/ --flops-per-step 2.1e14 --dtype bf16": "Compare the ranks of a job, and with the peak.",
    },
    "check": {
        "telemetry check": "Judge this node, as a plugin of Icinga or Nagios.",
        "telemetry check --format nhc --thresholds /etc/telemetry/check.toml": "The same for a node health check, with numbers of your own.",
    },
    "parse": {
        "telemetry parse rocm-smi saved.txt --format table": "Parse output that was saved elsewhere.",
        "npu-smi info | telemetry parse npu-smi -": "Parse what a tool prints just now.",
    },
    "metrics": {
        "telemetry metrics | grep temperature": "Find a metric.",
        "telemetry metrics --names dcgm-exporter --dashboard 12239.json": "See which of its metrics a board for another exporter finds here.",
    },
    "config": {
        "telemetry config default > telemetry.toml": "Begin a configuration.",
        "telemetry config check --config telemetry.toml": "Check it before it is used.",
        "telemetry config peaks roofline.csv --model 'AMD Instinct MI300X'": "What rocprofiler-compute measured, as a section of it.",
    },
    "forget": {
        "telemetry forget GPU-1f2e3d4c": "Forget a card that was taken out.",
        "telemetry forget --all-lost": "Forget all cards that are lost.",
    },
    "release": {
        "telemetry release nvml --for 10m": "Let go of NVML for ten minutes, to reset a GPU.",
    },
    "resume": {
        "telemetry resume nvml": "Poll NVML again.",
    },
    "maintenance": {
        "telemetry maintenance on --for 8h --reason 'new DIMMs'": "Hold the node's alerts back for eight hours.",
        "telemetry maintenance off": "End it.",
    },
    "job": {
        "telemetry job start": "Tell that a job begins, in its prolog.",
        "telemetry job end": "Tell that it ends, in its epilog.",
    },
    "completions": {
        "source <(telemetry completions bash)": "Complete commands in this shell.",
        "telemetry completions zsh > ~/.zfunc/_telemetry": "Complete them in every zsh whose fpath has that folder.",
        "telemetry completions fish > ~/.config/fish/completions/telemetry.fish": "The same for fish.",
    },
    "version": {
        "telemetry version": "Print the version.",
    },
}


def shown(command: str) -> str:
    """The examples as the end of a command's help; empty for no command."""
    lines = [f"  {typed}\n      {what}\n" for typed, what in EXAMPLES.get(command, {}).items()]
    return "\nexamples:\n" + "".join(lines) if lines else ""
