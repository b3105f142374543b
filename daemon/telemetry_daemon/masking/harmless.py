"""Words that identify nobody, although they stand where the names of hosts, people and jobs stand."""

from __future__ import annotations

import re
from pathlib import Path

from telemetry_parsers.metrics import CATALOGUE
from telemetry_parsers.text.tool_marks import TOOL_MARKS
from telemetry_parsers.vendors import VENDORS

_PLACES = """
    usr bin sbin lib libexec local opt etc var run tmp home root mnt media srv proc sys dev shm share include src dist site
    packages module modules class devices bus pci drivers driver drm render kfd topology nodes firmware kernel debug fs cgroup
    fd fdinfo task cmdline comm environ status stat statm maps exe cwd self block input net log cache spool lock data
    slice scope service user system kubelet pod pods resources sock snap microk8s k0s k3s rancher kubepods besteffort burstable guaranteed docker containerd crio libpod podman lxc overlay
    os tools tool fixtures testdata saved properties mem banks io p2p caches conda miniconda anaconda envs venv python pip wheels third party build examples models path workspace
    metrics jobs mxcd mxdriver htdriver mxn libnvidia flights docs meminfo mountinfo tops renderd owners writing parser
    cri nerdctl isulad buildkit payload conmon hpcc machine session app job jobid step steps batch slurm pbs torque imp
"""
_PROGRAMS = """
    python perl ruby java javac node npm bash sh zsh dash sudo su env nice timeout nohup xargs mpirun mpiexec srun sbatch slurmd
    slurmstepd torchrun deepspeed accelerate ray raylet gcs dashboard agent uvicorn gunicorn celery jupyter ipykernel launcher
    notebook tensorboard vllm sglang ollama runner llama server serve engine worker tritonserver triton xorg xwayland wayland
    gnome shell kwin plasmashell firefox chrome chromium code ffmpeg blender steam obs nvtop nvitop htop top dcgm dcgmi
    cuda mps control hostengine persistenced fabricmanager rocr hipcc hydcu hycu dtk hyhal mtgpu davinci dri nvidiactl uvm
    vllmworker vllmenginecore vllmenginecor npu_smi agent enumerator rocmsmi mthreadsgmi mtml musa hccl cann neuware mlu maca
    mxmaca corex ix gi huawei mthreads hygon metax tech volcano vgcu mim smlu dsmlu topsrider xpumd xpumcli level zero systemd init kthreadd oom reaper docker containerd telemetry
    prometheus exporter exe so ko py pyc sh bin json yaml yml toml conf cfg txt csv log md jar js cpp cu hip main run test
    train trainer infer inference benchmark bench m c x config port help version verbose rank world size local nproc
    tensor parallel tp pp dp ep num gpus devices
"""
_ENVIRONMENT = """
    path home lang pwd term true false yes no on off auto default utf en us posix cst gmt utc pythonpath ld library
    visible order force debug info warn warning error level omp mkl blas threads nccl rccl ib socket ifname eth bond
    ens eno enp wlan lo docker veth cni flannel cali br virbr mlx bnxt hns roce
"""
_SAID = """
    n a na none null unknown not available unavailable supported unsupported applicable disabled enabled disable enable fail
    failed failure error ok okay pass passed good healthy unhealthy normal abnormal degraded pending present absent permission
    denied insufficient permissions redacted masked hidden unset invalid valid empty active inactive idle busy up down lost
    physical virtual native host parent instance average instant rated primary secondary die exclusive process prohibited
    root nobody admin administrator system daemon operator guest localhost
"""
_TOOLS = """
    gpu gpus card cards dcu hcu npu mlu gcu xpu ppu dpu apu cpu cpus core cores chip chips die dies device slot socket board
    module tile stack engine queue ring port ports link links lane lanes rail zone fan fans sensor edge junction hotspot memory
    mem vram gtt hbm ddr gddr lpddr cache sclk mclk fclk dclk vclk socclk smclk gfxclk gfx ecc ras sdma vcn jpeg vpe umc mmhub
    pcie pcix bar bus id ids uid pid pids tid index name names product model series type vendor subsystem sku revision rev part
    number numbers serial uuid guid unique asset tag vbios bios ifwi version driver runtime release date time timestamp uptime
    temp temperature power draw cap limit limits max min mean avg current graphics video compute clock clocks speed freq
    frequency voltage energy utilization util usage used free total size bytes mode state perf performance level profile policy
    throttle throttled throttling reason reasons violation violations count counts counter corrected uncorrected deferred
    single double bit volatile aggregate retired pages page bad reserved health fault code codes message event events xid
    sxm nvl oam ocp ubb baseboard geforce rtx gtx quadro tesla grid orin jetson radeon instinct navi vega arcturus aqua
    vanjaram aldebaran mi mtt mxc mlu bi mr atlas arc max flex pro nvlink nvswitch xgmi metaxlink mtlink ualink infinity fabric
    numa affinity partition spx dpx tpx qpx cpx nps xcp xcd aid sriov vf pf mig vgpu sgpu mps persistence addressing
    kib mib gib tib kb mb gb tb mhz ghz khz hz mw kw mj mv ma ms us ns gt gbps mbps rpm pct percent celsius
    cuda opencl vulkan hsa hip agent isa linux gnu generic ubuntu debian centos rhel el fc aarch amd rc beta alpha dev git
    info show list json xml report summary table processes user users owner type parameter value unit units bytes device
    address addr phy mtv mtvgpu domain function location ip mac netmask gateway mtu rx tx packets frames lldp optical cdr snr lossless
"""
# The words of metric names are in every vendor's tools, so they identify no host that has one as its name.
_OF_METRICS = {
    part for metric in CATALOGUE for text in (metric.name, metric.label, *metric.words) for part in text.split("_")
}
# The words of the vendors and of their tools' names, as in `hy-smi`.
_OF_VENDORS = {
    part
    for name in (*TOOL_MARKS, *(name for vendor in VENDORS for name in (vendor.word, vendor.demo.source)))
    for part in re.split("[-_ ]", name)
}

KNOWN = frozenset(
    word.lower() for text in (_PLACES, _PROGRAMS, _ENVIRONMENT, _SAID, _TOOLS) for word in text.split()
).union(_OF_METRICS, _OF_VENDORS)

# What a tool may print besides: a machine whose name is one of these keeps it, since no number may change its meaning.
TOOL_WORDS = KNOWN.union(
    Path(__file__).with_name("tool_words.txt").read_text("utf-8").split(),
    ("amdgcn", "amdhsa", "base64", "bif", "hdp", "front", "lm75a", "lm75b", "lm75c", "te", "wafl"),
)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Words that make a host's name of a number: `node17`, `dgx-a100-03`.
HOST_WORDS = _words(
    """node nodes host server srv svr worker wrk rack dgx hgx compute comp login head master slave blade pod cn vm kube k8s
    desktop laptop workstation hpc slurm job ip ec2 ctrl storage nas bastion"""
)
# The last part of a name that the domain name system or a cluster gives.
TOP_DOMAINS = _words(
    """com net org io ai cn de uk fr jp kr ru in eu us ca au ch nl se it es edu gov mil info biz dev app cloud tech site
    local localdomain lan internal intern corp home private intra cluster svc hpc test example invalid arpa"""
)
SUFFIXES = _words(
    """so ko py pyc sh bin json jsonl yaml yml toml conf cfg ini txt csv log md jar js c h cc cpp cu hip go rs exe dll
    service slice scope socket mount timer xml html gz xz zip tar deb rpm run out err pid sock db sqlite"""
)
