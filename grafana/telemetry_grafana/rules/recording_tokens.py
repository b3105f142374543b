"""Recording rules for the tokens and the energy of inference servers and training jobs."""

from __future__ import annotations

from telemetry_grafana.rules.rule import Recording, RecordingGroup

_POD = "cluster, namespace, pod"
_POD_MODEL = f"{_POD}, model_name"
_MODEL = "cluster, model_name"
_JOB = "cluster, job_id"
# Ray and some collectors replace the colon in the names with an underscore.
_COUNTERS = (
    "vllm:generation_tokens_total",
    "vllm_generation_tokens_total",
    "ray_vllm_generation_tokens_total",
    "sglang:generation_tokens_total",
    "sglang_generation_tokens_total",
    "tgi_request_generated_tokens_sum",
)
TOKENS = "pod:inference_output_tokens:rate5m"
WATTS = "pod:inference_power_watts:rate5m"
POD_JOULES = "pod:inference_joules_per_output_token:rate5m"
POD_TOKENS_PER_WATT = "pod:inference_output_tokens_per_second_per_watt:rate5m"
MODEL_JOULES = "model_name:inference_joules_per_output_token:rate5m"
MODEL_TOKENS_PER_WATT = "model_name:inference_output_tokens_per_second_per_watt:rate5m"
JOB_JOULES = "job_id:steps_joules_per_token:rate5m"
JOB_TOKENS_PER_WATT = "job_id:steps_tokens_per_second_per_watt:rate5m"
_ENERGY = "accelerator_allocation_energy_joules_total"
_POD_ENERGY_RATE = f'label_replace(rate({_ENERGY}{{pod_name!=""}}[5m]), "namespace", "$1", "pod_namespace", "(.*)")'
_POD_WATTS = f'sum by ({_POD}) (label_replace({_POD_ENERGY_RATE}, "pod", "$1", "pod_name", "(.*)"))'
# Without tokens, the models of a pod get equal shares of the pod's power.
_MODEL_SHARE = (
    f"({TOKENS} / on ({_POD}) group_left () (sum by ({_POD}) ({TOKENS}) > 0)"
    f" or ({TOKENS} * 0 + 1) / on ({_POD}) group_left () count by ({_POD}) ({TOKENS}))"
)
_JOB_WATTS = f'sum by ({_JOB}) (rate({_ENERGY}{{job_id!=""}}[5m]))'
_JOB_TOKENS = f'sum by ({_JOB}) (rate(telemetry_steps_tokens_total{{job_id!=""}}[5m]))'


def _per_watt(tokens: str, watts: str) -> str:
    return f"{tokens} / ({watts} > 0)"


def _model_sum(series: str) -> str:
    """Return an expression that sums a series for each model, without pods whose power is unknown."""
    return f"sum by ({_MODEL}) ({series} and on ({_POD_MODEL}) {WATTS})"


TOKEN_ENERGY = RecordingGroup(
    "telemetry-tokens",
    (
        Recording(
            TOKENS,
            " or ".join(f'sum by ({_POD_MODEL}) (rate({counter}{{pod!=""}}[5m]))' for counter in _COUNTERS),
            "Output tokens per second of each pod and model, as vLLM, SGLang and TGI count them.",
            _POD_MODEL,
        ),
        Recording(
            WATTS,
            f"{_MODEL_SHARE} * on ({_POD}) group_left () ({_POD_WATTS})",
            "Power attributed to a pod, divided among its models in proportion to their tokens.",
            _POD_MODEL,
        ),
        Recording(POD_JOULES, f"{WATTS} / ({TOKENS} > 0)", "Joules per output token of a pod.", _POD_MODEL),
        Recording(
            POD_TOKENS_PER_WATT, _per_watt(TOKENS, WATTS), "Output tokens per second and watt of a pod.", _POD_MODEL
        ),
        Recording(
            MODEL_JOULES,
            f"{_model_sum(WATTS)} / ({_model_sum(TOKENS)} > 0)",
            "Joules per output token of a model, including the power of the model's idle pods.",
            _MODEL,
        ),
        Recording(
            MODEL_TOKENS_PER_WATT,
            _per_watt(_model_sum(TOKENS), _model_sum(WATTS)),
            "Output tokens per second and watt of a model, including the power of the model's idle pods.",
            _MODEL,
        ),
        Recording(
            JOB_JOULES,
            f"{_JOB_WATTS} / ({_JOB_TOKENS} > 0)",
            "Joules per token or sample of a job that counts its steps.",
            _JOB,
        ),
        Recording(
            JOB_TOKENS_PER_WATT,
            _per_watt(_JOB_TOKENS, _JOB_WATTS),
            "Tokens or samples per second and watt of a job that counts its steps.",
            _JOB,
        ),
    ),
)
