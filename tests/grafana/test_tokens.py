"""Joules per token, compared with hand-calculated values: inference servers, pods that share cards, jobs with steps."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from grafana.promtool import RECORDING, Question, Series, Story, assert_answers, groups_of

GROUPS = [group for group in groups_of(RECORDING) if group["name"] == "telemetry-tokens"]
CARD = 'job="telemetry",instance="n1",namespace="monitoring",pod="telemetry-1",vendor="nvidia",device="{0}",id="GPU-{0}",model="m"'


def energy(device: int, watts: float, **owner: str) -> dict[str, str]:
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
    scope, (first, *rest) = record.partition(":")[0], words.split()
    if scope == "pod":
        model = f'model_name="{rest[0]}",' if rest else ""
        return f'{{{model}namespace="serve",pod="{first}"}}'
    return f'{{{scope}="{first}"}}'


@pytest.mark.needs("promtool")
def test_joules_per_token(tmp_path: Path) -> None:
    # In thousandths, because the last digits of a quotient are uncertain.
    stories = [
        Story(
            series,
            [
                Question(
                    f"round({record} * 1000)",
                    "20m",
                    {labelled(record, words): round(value * 1000) for words, value in rows.items()},
                )
                for record, rows in expected.items()
            ],
            name,
        )
        for name, (series, expected) in CASES.items()
    ]
    assert_answers(tmp_path, GROUPS, stories)
