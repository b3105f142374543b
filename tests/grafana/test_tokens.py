"""Joules per token by hand: pages of inference servers, pods that share cards, and jobs that count their steps."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml

from grafana.promtool import RECORDING, Question, Series, Story, assert_answers, groups_of
from kits.prometheus import ConfiguredPrometheus, impatient
from kits.waiting import until

GROUPS = [group for group in groups_of(RECORDING) if group["name"] == "telemetry-tokens"]
CARD = 'job="telemetry",instance="n1",namespace="monitoring",pod="telemetry-1",vendor="nvidia",device="{0}",id="GPU-{0}",model="m"'
VLLM = """# HELP vllm:generation_tokens_total Number of generation tokens processed.
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{{engine="0",model_name="llama"}} {tokens}
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{{engine="0",model_name="llama"}} {prompts}
"""
SGLANG = """# HELP sglang:generation_tokens_total Number of generation tokens processed.
# TYPE sglang:generation_tokens_total counter
sglang:generation_tokens_total{{model_name="qwen"}} {tokens}
# TYPE sglang:prompt_tokens_total counter
sglang:prompt_tokens_total{{model_name="qwen"}} {prompts}
"""


def energy(device: int, watts: float, **owner: str) -> dict[str, str]:
    """The energy of an owner's share of a card, at a constant power."""
    labels = ",".join(f'{name}="{text}"' for name, text in owner.items())
    series = f"accelerator_allocation_energy_joules_total{{{CARD.format(device)},{labels}}}"
    return {series: f"{watts * 6000}+{watts * 60}x30"}


def pod_energy(device: int, watts: float, pod: str) -> dict[str, str]:
    return energy(device, watts, owner_kind="pod", pod_namespace="serve", pod_name=pod, container_name="main")


def counted(name: str, labels: str, per_second: float) -> dict[str, str]:
    return {f"{name}{{{labels}}}": f"{per_second * 6000}+{per_second * 60}x30"}


def of_pod(pod: str, model: str = "llama", **more: str) -> str:
    labels = {"namespace": "serve", "pod": pod, "job": "vllm", **({"model_name": model} if model else {}), **more}
    return ",".join(f'{name}="{text}"' for name, text in labels.items())


JOULES, PER_WATT, MODEL = (
    "pod:inference_joules_per_output_token:rate5m",
    "pod:inference_output_tokens_per_second_per_watt:rate5m",
    "model_name:inference_joules_per_output_token:rate5m",
)
VLLM_COUNTER, SGLANG_COUNTER = "vllm:generation_tokens_total", "sglang:generation_tokens_total"
CASES: Mapping[str, tuple[Series, Mapping[str, Mapping[str, float]]]] = {
    "two pods share a card": (
        {
            **pod_energy(0, 300, "a"),
            **pod_energy(0, 100, "b"),
            **counted(VLLM_COUNTER, of_pod("a", engine="0"), 20),
            **counted(VLLM_COUNTER, of_pod("a", engine="1"), 30),
            **counted(SGLANG_COUNTER, of_pod("b", "qwen"), 10),
        },
        {
            JOULES: {"a llama": 6, "b qwen": 10},
            PER_WATT: {"a llama": 1 / 6, "b qwen": 0.1},
            MODEL: {"llama": 6, "qwen": 10},
        },
    ),
    "a pod with two cards, and one replica that is idle": (
        {
            **pod_energy(0, 300, "a"),
            **pod_energy(1, 200, "a"),
            **pod_energy(2, 100, "b"),
            **counted(VLLM_COUNTER, of_pod("a"), 50),
            **counted(VLLM_COUNTER, of_pod("b"), 0),
        },
        {JOULES: {"a llama": 10}, MODEL: {"llama": 12}},
    ),
    "models of one pod share its power by their tokens": (
        {
            **pod_energy(0, 300, "a"),
            **counted(VLLM_COUNTER, of_pod("a"), 20),
            **counted(VLLM_COUNTER, of_pod("a", "lora"), 10),
        },
        {JOULES: {"a llama": 10, "a lora": 10}, MODEL: {"llama": 10, "lora": 10}},
    ),
    "names of other versions and servers": (
        {
            **pod_energy(0, 300, "a"),
            **pod_energy(1, 300, "b"),
            **pod_energy(2, 300, "c"),
            **counted("sglang_generation_tokens_total", of_pod("a", "qwen"), 30),
            **counted("tgi_request_generated_tokens_sum", of_pod("b", ""), 60),
            **counted("ray_vllm_generation_tokens_total", of_pod("c"), 100),
        },
        {JOULES: {"a qwen": 10, "b": 5, "c llama": 3}},
    ),
    "a pod without a card, and a card without tokens": (
        {**pod_energy(0, 300, "a"), **counted(VLLM_COUNTER, of_pod("b"), 30)},
        {JOULES: {}, MODEL: {}},
    ),
    "a training job": (
        {
            **energy(0, 400, owner_kind="job", job_id="7", user="u"),
            **energy(1, 200, owner_kind="job", job_id="7", user="u"),
            **counted(
                "telemetry_steps_tokens_total", 'job="telemetry",instance="n1",id="GPU-0",job_id="7",rank="0"', 100
            ),
            **counted(
                "telemetry_steps_tokens_total", 'job="telemetry",instance="n1",id="GPU-1",job_id="7",rank="1"', 100
            ),
        },
        {"job_id:steps_joules_per_token:rate5m": {"7": 3}},
    ),
}


def labelled(record: str, words: str) -> str:
    """The labels of a series by its words: pod and model, a model, or a job."""
    scope, (first, *rest) = record.partition(":")[0], words.split()
    if scope == "pod":
        model = f'model_name="{rest[0]}",' if rest else ""
        return f'{{{model}namespace="serve",pod="{first}"}}'
    return f'{{{scope}="{first}"}}'


@pytest.mark.needs("promtool")
@pytest.mark.parametrize("name", CASES)
def test_joules_per_token_are_those_by_hand(name: str, tmp_path: Path) -> None:
    series, expected = CASES[name]
    # In thousandths, since the last digits of a quotient are not those by hand.
    questions = [
        Question(
            f"round({record} * 1000)",
            "20m",
            {labelled(record, words): round(value * 1000) for words, value in rows.items()},
        )
        for record, rows in expected.items()
    ]
    assert_answers(tmp_path, GROUPS, [Story(series, questions, name)])


@contextmanager
def served(page: Callable[[], str]) -> Iterator[str]:
    """Serve a page at an address of its own."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = page().encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Nothing is logged."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.needs("prometheus")
@pytest.mark.timeout(300)
def test_two_pods_on_a_shared_card_on_a_real_prometheus(tmp_path: Path) -> None:
    """Pod a draws 300 W for 50 tokens a second, pod b 100 W for 10: 6 and 10 joules for a token."""
    began = time.monotonic()

    def server(page: str, per_second: float) -> Callable[[], str]:
        return lambda: page.format(tokens=1e6 + per_second * (time.monotonic() - began), prompts=5e6)

    def cards() -> str:
        shares = {
            series.split(" ")[0]: watts
            for watts, pod in ((300, "a"), (100, "b"))
            for series in pod_energy(0, watts, pod)
        }
        seconds = 1e5 + time.monotonic() - began
        return "".join(f"{series} {watts * seconds}\n" for series, watts in shares.items()).replace(
            'job="telemetry",instance="n1",namespace="monitoring",pod="telemetry-1",', ""
        )

    with served(cards) as node, served(server(VLLM, 50)) as first, served(server(SGLANG, 10)) as second:
        targets = [(node, "monitoring", "telemetry-1"), (first, "serve", "a"), (second, "serve", "b")]
        jobs = [{"targets": [address], "labels": {"namespace": space, "pod": pod}} for address, space, pod in targets]
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(file) for file in impatient([RECORDING], tmp_path)],
            "scrape_configs": [{"job_name": "all", "static_configs": jobs}],
        }
        (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
        with ConfiguredPrometheus(tmp_path / "prometheus.yml") as prometheus:

            def found() -> dict[str, float]:
                return {row["metric"]["pod"]: float(row["value"][1]) for row in prometheus.query(JOULES)[1]}

            # Targets are scraped one after the other: a rate of a few samples is off by a scrape.
            until(lambda: found() == pytest.approx({"a": 6.0, "b": 10.0}, rel=0.05), "joules per token by hand")
