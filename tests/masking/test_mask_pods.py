"""Masked recordings of pods, processes and jobs name no owner, and each card still has the same owner."""

import pytest

from kits.captures import own_cases, registered_parsers
from telemetry_daemon.masking.mask import Mask
from telemetry_parsers.codec.captures import capture_to_plain, encode_line
from telemetry_parsers.model import Capture, Failure, Library, Output, Plain, Report
from telemetry_parsers.owners.cgroups import CgroupOwner, owner_in_cgroup
from telemetry_parsers.owners.kubelet import PARSER
from telemetry_parsers.ownership import Claim, Owner

PODS = PARSER.polls[0]
UID = "9d1b7b3c-5e2a-4c7b-8f16-2a6c7e91d845"
SECRETS = (UID, "ab12" * 16, "zebra", "merger", "quokka", "fraud", "acme", "marlowe", "8f3kq")


def masked(capture: Capture) -> Capture:
    return Mask(b"k" * 32, ()).masked_capture(capture, None if capture.failure else PARSER.parse(capture))


def captured(pod_name: str, container: str, namespace: str) -> Plain:
    """Return the capture of a pod with a card, and of the node's files about the pod."""
    names = {"namespace": namespace, "pod_name": pod_name}
    devices = [{"resource": "acme.com/gpu", "device": "3"}, {"resource": "nvidia.com/gpu", "device": f"GPU-{UID}"}]
    return {
        "pods": [{**names, "containers": [{"container_name": container, "devices": devices, "drawn": []}]}],
        "resources": ["acme.com/gpu"],
        "folders": [{**names, "pod_uid": UID}],
        "links": [{**names, "container_name": container, "container_id": "ab12" * 16}],
        "living_pod_uids": [UID],
    }


@pytest.mark.parametrize(
    ("pod_name", "container", "namespace"),
    [
        ("zebra-merger-7d9f8c6b5-8f3kq", "quokka", "fraud"),
        ("quokka-marlowe-0", "zebra-merger", "acme-fraud"),
        ("merger.zebra", "fraud-1", "acme"),
    ],
)
def test_hidden_pod_names_still_join(pod_name: str, container: str, namespace: str) -> None:
    capture = Capture(
        "kubelet", "pods", PODS.request, (Output("pods", status=0, data=captured(pod_name, container, namespace)),)
    )
    hidden = masked(capture)
    line = encode_line(capture_to_plain(hidden)).lower()
    assert [secret for secret in SECRETS if secret in line] == []
    claims = PARSER.parse(hidden).claims
    assert shapes(claims) == shapes(PARSER.parse(capture).claims)
    assert {claim.lives for claim in claims} == {True}
    assert [key.partition(":")[0] for key in claims[0].keys] == ["podname", "container", "pod"]


def test_names_in_answers_of_the_kubelet_are_hidden() -> None:
    failure = Failure("failed", "exit_status", 'it refuses (gRPC status 2: pod "zebra-7d9f8c6b5-8f3kq" not found)')
    assert "8f3kq" not in str(masked(Capture("kubelet", "pods", PODS.request, (), failure)))


def shapes(claims: tuple[Claim, ...]) -> list[object]:
    numbers: dict[str, int] = {}
    return [
        (
            numbers.setdefault(claim.owner.name, len(numbers)),
            [
                (name.way, name.vendor, name.instance, numbers.setdefault(name.value, len(numbers)))
                for name in claim.names
            ],
            claim.replica,
            claim.lives,
            len(claim.keys),
        )
        for claim in claims
    ]


def test_a_masked_capture_claims_the_same() -> None:
    for capture in (capture for case in own_cases("kubelet") for capture in case.captures(PARSER)):
        if capture.failure is None:
            before, after = PARSER.parse(capture), PARSER.parse(masked(capture))
            assert shapes(after.claims) == shapes(before.claims)
            assert len(after.problems) == len(before.problems)


ID = "7f3a9c1e5b7d" * 5 + "abcd"
SLICE = f"kubepods-burstable-pod{UID.replace('-', '_')}.slice"
PATHS = [
    f"0::/kubepods.slice/kubepods-burstable.slice/{SLICE}/cri-containerd-{ID}.scope",
    f"0::/kubepods.slice/{SLICE}/crio-{ID}.scope",
    f"0::/kubepods.slice/{SLICE}/crio-conmon-{ID}.scope",
    f"0::/kubepods/burstable/pod{UID}/{ID}",
    f"0::/kubepods.slice/kubepods-pod{UID.replace('-', '')}.slice/cri-containerd-{ID}.scope",
    f"0::/{SLICE}:cri-containerd:{ID}",
    f"0::/system.slice/docker-{ID}.scope",
    f"12:devices:/docker/{ID}",
    f"0::/machine.slice/libpod-{ID}.scope/container",
    f"0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope/container",
    f"0::/system.slice/nerdctl-{ID}.scope",
    f"0::/isulad/{ID}",
    "0::/lxc.payload.zebra/x",
    "0::/lxc/zebra",
    "0::/machine.slice/machine-zebra.scope",
    r"0::/machine.slice/machine-qemu\x2d1\x2dzebra.scope",
    "0::/system.slice/slurmstepd.scope/job_482131/step_0/user/task_0",
    "0::/system.slice/slurmstepd.scope/sEKNKTV3WPV500/step_0/user/task_0",
    "4:memory:/slurm/uid_1000/job_4242/step_batch",
    "4:memory:/slurm_node1/uid_1000/job_4242/step_batch",
    "0::/pbs_jobs.service/jobid/482131.zebra",
    "0::/pbs_jobs.service/jobid/4242[3].zebra-server",
    "4:memory:/torque/482131.zebra.example",
    "0::/user.slice/user-1000.slice/user@1000.service/imp-shell-0-f2Ek8Bx.service",
    "0::/system.slice/shell-0-ƒ2Ek8Bx.service",
    "0::/user.slice/user-1000.slice/session-9.scope",
    "0::/user.slice/user-1000.slice/user@1000.service/app.slice/app-zebra.scope",
    "0::/system.slice/ollama.service",
    "0::/system.slice/zebra.service",
    "0::/system.slice/vllm@0.service",
]
OWNER_SECRETS = (ID, "9d1b7b3c", "zebra", "EKNKTV3WPV500", "2Ek8Bx")
PARSERS = registered_parsers()


def kinds(group: CgroupOwner) -> tuple[object, ...]:
    return group.owner and group.owner.kind, [key.partition(":")[0] for key in group.keys], bool(group.container)


def test_the_group_of_a_process_reports_the_same_kind_of_owner() -> None:
    for path in PATHS:
        output = Output("2101", status=0, data={"cgroup": f"{path}\n"})
        masked = Mask(b"of these tests", ()).masked_capture(
            Capture("proc", "processes", Library("proc"), (output,)), None
        )
        hidden = str(masked.outputs[0].data["cgroup"])
        assert kinds(owner_in_cgroup(hidden)) == kinds(owner_in_cgroup(path))
        assert [secret for secret in OWNER_SECRETS if secret.lower() in hidden.lower()] == []


def test_job_number_has_one_stand_in() -> None:
    data = [
        {"file": "slurm-482131.json", "id": "482131", "name": "482131", "user": "anna"},
        {"file": "pbs-482131.zebra.json", "id": "482131.zebra", "name": "482131.zebra", "user": "anna"},
        {"file": "flux-ƒ2Ek8Bx.json", "id": "ƒ2Ek8Bx", "name": "f2Ek8Bx"},
        {"owner": {"kind": "job", "name": "482131", "job_id": "482131", "user": "anna"}},
        {"environment": {"SLURM_JOB_ID": "482131", "PBS_JOBID": "482131.zebra", "FLUX_JOB_ID": "f2Ek8Bx"}},
        {"partition": "zebra", "SLURM_CLUSTER_NAME": "zebra"},
    ]
    capture = Capture("any", "any", Library("any"), (Output(data=data),))
    hidden = Mask(b"of these tests", ()).masked_capture(capture, None)
    slurm, pbs, flux, owned, process, partition = hidden.outputs[0].data
    assert (slurm["file"], slurm["id"], slurm["name"]) == ("slurm-482131.json", "482131", "482131")
    assert (owned["owner"]["name"], owned["owner"]["job_id"]) == ("482131", "482131")
    assert slurm["user"] == owned["owner"]["user"] != "anna"
    assert pbs["id"] == pbs["name"] == process["environment"]["PBS_JOBID"]
    assert pbs["file"] == f"pbs-{pbs['id']}.json"
    assert pbs["id"].startswith("482131.")
    assert flux["id"] == flux["file"][5:-5] == f"ƒ{flux['name'][1:]}"
    assert flux["name"] == process["environment"]["FLUX_JOB_ID"]
    assert "zebra" not in str((slurm, pbs, flux, owned, process, partition))


@pytest.mark.parametrize("tool", ["proc", "slurm", "pbs", "flux", "job-map"])
def test_a_masked_capture_has_the_same_owners(tool: str) -> None:
    parser = PARSERS[tool]
    for capture in (capture for case in own_cases(tool) for capture in case.captures(parser)):
        before = parser.parse(capture)
        after = parser.parse(Mask(b"of these tests", ()).masked_capture(capture, before))
        assert owners(after) == owners(before)


def owners(report: Report) -> list[object]:
    numbers: dict[str, int] = {}

    def number(owner: Owner | None) -> object:
        return None if owner is None else (owner.kind, numbers.setdefault(owner.name, len(numbers)))

    tasks = [(number(task.owner), [key.partition(":")[0] for key in task.keys]) for task in report.tasks]
    claims = [(number(claim.owner), len(claim.names), claim.lives, len(claim.keys)) for claim in report.claims]
    return [*tasks, *claims]
