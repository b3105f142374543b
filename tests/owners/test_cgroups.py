"""A process's owner, from the text of /proc/PID/cgroup: each form of reference text, and any text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry_parsers.owners.cgroups import MAX_CHARACTERS, CgroupOwner, owner_in_cgroup
from telemetry_parsers.ownership import Owner

ID = "0123456789abcdef" * 4
OTHER = ID[::-1]
UID = "1b4e28ba-2fa1-11d2-883f-0016d3cca427"
SLICE_UID = UID.replace("-", "_")
STATIC = "f1e2d3c4b5a697887766554433221100"


def container(container_id: str = ID, *keys: str) -> CgroupOwner:
    name = container_id[:12] if len(container_id) == 64 else container_id
    return CgroupOwner(Owner("container", name), (f"container:{container_id}", *keys), name)


def job(key: str, number: str, outside: str = "") -> CgroupOwner:
    return CgroupOwner(Owner("job", number, job_id=number), (f"{key}:{number}",), outside)


def service(unit: str) -> CgroupOwner:
    return CgroupOwner(Owner("service", unit))


PODS = f"pod:{UID}"
# fmt: off
CASES = {
    "docker, cgroupfs": (f"0::/docker/{ID}", container()),
    "docker, systemd": (f"0::/system.slice/docker-{ID}.scope", container()),
    "docker, version 1": (f"12:devices:/docker/{ID}\n1:name=systemd:/docker/{ID}\n", container()),
    "docker, hybrid": (f"4:memory:/user.slice\n1:name=systemd:/docker/{ID}\n0::/system.slice/containerd.service", container()),
    "docker, rootless": (f"0::/user.slice/user-1000.slice/user@1000.service/user.slice/docker-{ID}.scope", container()),
    "containerd": (f"0::/system.slice/cri-containerd-{ID}.scope", container()),
    "containerd, both drivers": (f"0::/system.slice:cri-containerd:{ID}", container()),
    "nerdctl": (f"0::/system.slice/nerdctl-{ID}.scope", container()),
    "nerdctl, cgroupfs": (f"0::/default/{ID}", container()),
    "podman": (f"0::/machine.slice/libpod-{ID}.scope/container", container()),
    "podman, rootless": (f"0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope/container", container()),
    "podman, split": (f"0::/system.slice/web.service/libpod-payload-{ID}", container()),
    "podman, in a pod": (f"0::/machine.slice/machine-libpod_pod_{OTHER}.slice/libpod-{ID}.scope", container()),
    "podman, monitor": (f"0::/machine.slice/libpod-conmon-{ID}.scope", CgroupOwner()),
    "cri-o": (f"0::/kubepods.slice/kubepods-pod{SLICE_UID}.slice/crio-{ID}.scope", container(ID, PODS)),
    "cri-o, monitor": (f"0::/kubepods.slice/kubepods-pod{SLICE_UID}.slice/crio-conmon-{ID}.scope", CgroupOwner()),
    "isula": (f"5:memory:/isulad/{ID}", container()),
    "kubernetes, systemd, guaranteed": (f"0::/kubepods.slice/kubepods-pod{SLICE_UID}.slice/cri-containerd-{ID}.scope", container(ID, PODS)),
    "kubernetes, systemd, burstable": (f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{SLICE_UID}.slice/cri-containerd-{ID}.scope", container(ID, PODS)),
    "kubernetes, docker": (f"0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{SLICE_UID}.slice/docker-{ID}.scope", container(ID, PODS)),
    "kubernetes, cgroupfs": (f"0::/kubepods/besteffort/pod{UID}/{ID}", container(ID, PODS)),
    "kubernetes, version 1": (f"3:cpuset:/kubepods/pod{UID}/{ID}\n1:name=systemd:/kubepods/pod{UID}/{ID}", container(ID, PODS)),
    "kubernetes, one part": (f"0::/system.slice/containerd.service/kubepods-burstable-pod{SLICE_UID}.slice:cri-containerd:{ID}", container(ID, PODS)),
    "kubernetes, static pod": (f"0::/kubepods.slice/kubepods-pod{STATIC}.slice/cri-containerd-{ID}.scope", container(ID, f"pod:{STATIC}")),
    "kubernetes, no container": (f"0::/kubepods.slice/kubepods-pod{SLICE_UID}.slice", CgroupOwner(Owner("pod", UID), (PODS,))),
    "kind": (f"0::/docker/{OTHER}/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{SLICE_UID}.slice/cri-containerd-{ID}.scope", container(ID, PODS)),
    "seen from a container": (f"0::/../../pod{UID}/{ID}", container(ID, PODS)),
    "seen from a container beside it": (f"0::/../cri-containerd-{ID}.scope", container()),
    "lxc": ("0::/lxc.payload.web-1/system.slice/x.service", container("web-1")),
    "lxc, version 1": ("4:devices:/lxc/web\n", container("web")),
    "nspawn": (r"0::/machine.slice/machine-debian\x2d12.scope/payload", container("debian-12")),
    "slurm, number": ("0::/system.slice/slurmstepd.scope/job_77/step_0/user/task_0", job("slurm", "77")),
    "slurm, SLUID": ("0::/system.slice/slurmstepd.scope/sEKNKTV3WPV500/step_batch/user/task_special", job("sluid", "sEKNKTV3WPV500")),
    "slurm, several daemons": ("0::/system.slice/node1_slurmstepd.scope/job_77/step_extern/user", job("slurm", "77")),
    "slurm, other slice": ("0::/batch.slice/slurmstepd.scope/job_77/step_interactive/user/task_0", job("slurm", "77")),
    "slurm, version 1": ("9:devices:/slurm/uid_1000/job_12/step_0/task_0\n1:name=systemd:/system.slice/slurmd.service", job("slurm", "12")),
    "slurm, version 1, several daemons": ("9:devices:/slurm_n1/uid_1000/job_12/step_0", job("slurm", "12")),
    "slurm in a pod": (f"0::/kubepods.slice/kubepods-pod{SLICE_UID}.slice/cri-containerd-{ID}.scope/system.slice/slurmstepd.scope/job_5/step_0", job("slurm", "5", ID[:12])),
    "a container in a job": (f"0::/system.slice/slurmstepd.scope/job_5/step_0/user/task_0/libpod-{ID}.scope", container()),
    "pbs": ("0::/pbs_jobs.service/jobs/12.server1", job("pbs", "12.server1")),
    "pbs, version 1, array": ("2:cpuset:/pbs_jobs.service/jobid/12[3].server1", job("pbs", "12[3].server1")),
    "torque": ("2:cpuset:/torque/12.server1", job("pbs", "12.server1")),
    "flux": ("0::/user.slice/user-500.slice/user@500.service/app.slice/imp-shell-0-f2WqQb4B3X.service", job("flux", "f2WqQb4B3X")),
    "a unit": ("0::/system.slice/ollama.service", service("ollama.service")),
    "a unit with parts": ("0::/system.slice/system-llm.slice/llm@1.service/worker", service("llm@1.service")),
    "a session": ("0::/user.slice/user-1000.slice/session-3.scope", CgroupOwner(Owner("user", "1000", user="1000"))),
    "a person's unit": ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/code.service", CgroupOwner(Owner("user", "1000", user="1000"))),
    "deleted": (f"0::/system.slice/docker-{ID}.scope (deleted)", container()),
    "nothing known": ("0::/some/where", CgroupOwner()),
    "the root": ("0::/", CgroupOwner()),
    "empty": ("", CgroupOwner()),
    "no cgroup": ("hello\n1\n::\n", CgroupOwner()),
}
# fmt: on


def test_each_form_of_a_cgroup_has_its_owner() -> None:
    for name, (text, expected) in CASES.items():
        assert owner_in_cgroup(text) == expected, name


PARTS = (
    "a",
    "pod",
    f"pod{UID}",
    "job_1",
    "docker",
    ID,
    f"docker-{ID}.scope",
    "slurmstepd.scope",
    "x.service",
    r"\x2d",
    "..",
    "",
)
PATHS = st.lists(st.sampled_from(PARTS), max_size=6).map("/".join)
LINES = st.tuples(st.sampled_from(("0::/", "4:memory:/", "1:name=systemd:/", "::", "")), PATHS).map("".join)


@given(st.text() | st.lists(LINES, max_size=4).map("\n".join))
def test_any_text_gives_a_group(text: str) -> None:
    group = owner_in_cgroup(text)
    assert group.owner is None or group.owner.name


@pytest.mark.parametrize("part", ["/a", "/pod", "/job_1", "0::/", "\n", r"\x2d", "/kubepods-pod", ":"])
def test_only_the_beginning_of_a_text_is_read(part: str) -> None:
    beginning = ("0::" + part * (MAX_CHARACTERS // len(part)))[:MAX_CHARACTERS]
    assert owner_in_cgroup(f"{beginning}\n0::/docker/{ID}") == owner_in_cgroup(beginning) == CgroupOwner()
