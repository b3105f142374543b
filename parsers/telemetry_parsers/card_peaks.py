"""Peak rates, without sparsity, of card models and of their parts, such as MIG instances."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Literal, NamedTuple

from telemetry_parsers.dataclass import dataclass, replace

Origin = Literal["vendor", "measured", "configured"]

# Rates of `fp32` and `fp64` are for vector units, other rates for matrix units. Integers are signed.
DTYPES = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "fp6", "fp4", "int8", "int4")
# The 16-bit data types, the preferred one first.
_SIXTEEN_BIT_DTYPES = ("bf16", "fp16")


@dataclass(frozen=True, slots=True)
class Rate:
    """One data type's peak rate without sparsity, per second and per clock cycle."""

    dtype: str
    flops: float | None
    flops_per_cycle: float | None


@dataclass(frozen=True, slots=True)
class PeakRates:
    """The known peak rates of one device."""

    rates: tuple[Rate, ...]
    memory_bytes_per_second: float | None
    origin: Origin

    def flops(self, dtype: str) -> float | None:
        """Return the operations per second with this data type, or None if unknown."""
        return next((rate.flops for rate in self.rates if rate.dtype == dtype), None)

    def flops_per_cycle(self, dtype: str) -> float | None:
        """Return the operations per cycle with this data type, or None if unknown."""
        return next((rate.flops_per_cycle for rate in self.rates if rate.dtype == dtype), None)

    @property
    def main_dtype(self) -> str | None:
        """Return the preferred 16-bit data type with a known rate (bf16 before fp16), or None if neither is known."""
        dtypes = {rate.dtype for rate in self.rates}
        return next((dtype for dtype in _SIXTEEN_BIT_DTYPES if dtype in dtypes), None)


class QuotedRate(NamedTuple):
    """A vendor's rate for a data type, and the clock at which a card reaches it."""

    teraflops: float
    megahertz: int


class Model(NamedTuple):
    """A row of the model table: one card model's names and quoted rates."""

    names: tuple[str, ...]
    pci_ids: tuple[str, ...]  # `vendor:device`; an id in several rows does not identify a model
    architecture: str
    units: int  # multiprocessors or compute units of one listed device
    quoted: tuple[tuple[str, QuotedRate], ...]
    memory_gigabytes_per_second: float | None  # None if the vendor's documents contradict each other
    sources: tuple[str, ...]  # names of documents in `.ci/peak_sources.py`


# Dense operations of one compute unit per clock cycle. A fused multiply-add counts as two.
# Rates of 16-bit types and fp8 are for accumulation in 32 bits.
OPERATIONS_PER_UNIT: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {
        "volta": {"fp32": 128, "fp16": 1024},
        "turing": {"fp32": 128, "fp16": 1024, "int8": 2048},
        "ampere": {"fp32": 128, "tf32": 1024, "bf16": 2048, "fp16": 2048, "int8": 4096},
        "ampere_graphics": {"fp32": 256, "tf32": 512, "bf16": 1024, "fp16": 1024, "int8": 2048},
        # GeForce cards and the L40 have half the rate for 16-bit types if they accumulate in 32 bits.
        "ampere_half": {"fp32": 256, "bf16": 512, "fp16": 512},
        "ada": {"fp32": 256, "tf32": 512, "bf16": 1024, "fp16": 1024, "fp8": 2048, "int8": 2048},
        "ada_half": {"fp32": 256, "bf16": 512, "fp16": 512, "fp8": 1024},
        "hopper": {"fp32": 256, "tf32": 2048, "bf16": 4096, "fp16": 4096, "fp8": 8192, "int8": 8192},
        "cdna1": {"fp32": 128, "bf16": 512, "fp16": 1024},
        "cdna2": {"fp32": 128, "bf16": 1024, "fp16": 1024, "int8": 1024},
        "cdna3": {"fp32": 256, "tf32": 1024, "bf16": 2048, "fp16": 2048, "fp8": 4096, "int8": 4096},
        "cdna4": {"fp32": 256, "bf16": 4096, "fp16": 4096, "fp8": 8192, "int8": 8192},
    }
)


def _quoted_rates(megahertz: int, **teraflops: float) -> tuple[tuple[str, QuotedRate], ...]:
    return tuple((dtype, QuotedRate(rate, megahertz)) for dtype, rate in teraflops.items())


_V100 = _quoted_rates(1530, fp32=15.7, fp16=125.0)
_V100_PCIE = _quoted_rates(1380, fp32=14.0, fp16=112.0)
_A100 = _quoted_rates(1410, fp32=19.5, tf32=156.0, bf16=312.0, fp16=312.0, int8=624.0)
_HOPPER_FP32 = _quoted_rates(1980, fp32=66.9)
_HOPPER = (*_HOPPER_FP32, *_quoted_rates(1830, tf32=494.7, bf16=989.4, fp16=989.4, fp8=1978.9, int8=1978.9))
_MI300X = _quoted_rates(2100, fp32=163.4, tf32=653.7, bf16=1307.4, fp16=1307.4, fp8=2614.9, int8=2614.9)

# Each row is on one or two lines.
# fmt: off
ROWS: tuple[Model, ...] = (
    Model(("Tesla V100-SXM2-16GB", "Tesla V100-SXM2-32GB"), (), "volta", 80, _V100, 900, ("nvidia-ampere", "nvidia-v100")),
    Model(("Tesla V100-PCIE-16GB", "Tesla V100-PCIE-32GB"), (), "volta", 80, _V100_PCIE, 900, ("nvidia-v100", "nvidia-forum")),
    Model(("Tesla T4",), (), "turing", 40, _quoted_rates(1590, fp32=8.1, fp16=65.0, int8=130.0), None, ("nvidia-t4", "techpowerup")),
    Model(("NVIDIA A100-SXM4-40GB", "A100-SXM4-40GB", "NVIDIA A100-PCIE-40GB", "A100-PCIE-40GB"), (), "ampere", 108, _A100, 1555,
        ("nvidia-ampere", "nvidia-forum")),
    Model(("NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB"), (), "ampere", 108, _A100, 2039, ("nvidia-a100", "nvidia-ampere")),
    Model(("NVIDIA A100 80GB PCIe",), (), "ampere", 108, _A100, 1935, ("nvidia-a100", "nvidia-ampere")),
    Model(("NVIDIA A30", "A30"), (), "ampere", 56, _quoted_rates(1440, fp32=10.3, tf32=82.0, bf16=165.0, fp16=165.0, int8=330.0), 933,
        ("nvidia-a30", "techpowerup")),
    Model(("NVIDIA A10", "A10"), (), "ampere_graphics", 72, _quoted_rates(1695, fp32=31.2, tf32=62.5, bf16=125.0, fp16=125.0, int8=250.0), 600,
        ("nvidia-a10", "techpowerup")),
    Model(("NVIDIA A40", "A40"), (), "ampere_graphics", 84, _quoted_rates(1740, fp32=37.4, tf32=74.8, bf16=149.7, fp16=149.7, int8=299.3), 696,
        ("nvidia-a40", "techpowerup")),
    Model(("NVIDIA RTX A6000", "RTX A6000"), (), "ampere_graphics", 84, _quoted_rates(1800, fp32=38.7, bf16=154.8, fp16=154.8), 768,
        ("nvidia-ga102", "techpowerup")),
    Model(("NVIDIA GeForce RTX 3090", "GeForce RTX 3090"), (), "ampere_half", 82, _quoted_rates(1695, fp32=35.6, bf16=71.0, fp16=71.0), 936,
        ("nvidia-ga102",)),
    Model(("NVIDIA GeForce RTX 4090",), (), "ada_half", 128, _quoted_rates(2520, fp32=82.6, bf16=165.2, fp16=165.2, fp8=330.3), 1008,
        ("nvidia-ada",)),
    Model(("NVIDIA L4",), (), "ada", 58, _quoted_rates(2040, fp32=30.3, tf32=60.0, bf16=121.0, fp16=121.0, fp8=242.5, int8=242.5), 300,
        ("nvidia-l4", "techpowerup")),
    Model(("NVIDIA L40",), (), "ada_half", 142, _quoted_rates(2490, fp32=90.5, bf16=181.05, fp16=181.05, fp8=362.0), 864,
        ("nvidia-l40", "nvidia-ada")),
    Model(("NVIDIA L40S",), (), "ada", 142, _quoted_rates(2520, fp32=91.6, tf32=183.0, bf16=362.05, fp16=362.05, fp8=733.0, int8=733.0), 864,
        ("nvidia-l40s", "ml-engineering", "techpowerup")),
    Model(("NVIDIA H100 80GB HBM3",), (), "hopper", 132, _HOPPER, 3350, ("nvidia-h100", "ml-engineering")),
    Model(("NVIDIA H100 PCIe",), (), "hopper", 114,
        (*_quoted_rates(1755, fp32=51.2), *_quoted_rates(1620, tf32=378.0, bf16=756.0, fp16=756.0, fp8=1513.0, int8=1513.0)), 2000,
        ("nvidia-h100", "nvidia-forum", "ml-engineering")),
    Model(("NVIDIA H200",), (), "hopper", 132, _HOPPER, 4800, ("nvidia-h200", "nvidia-h100", "ml-engineering")),
    Model(("NVIDIA GH200 480GB",), (), "hopper", 132, _HOPPER, 4000, ("nvidia-gh200", "nvidia-h100", "ml-engineering")),
    Model(("AMD Instinct MI100", "Instinct MI100"), ("1002:738c",), "cdna1", 120, _quoted_rates(1502, fp32=23.1, bf16=92.3, fp16=184.6), 1228.8,
        ("rocm-mi100", "amd-cdna2")),
    Model(("AMD Instinct MI210", "AMD INSTINCT MI210", "Instinct MI210"), ("1002:740f",), "cdna2", 104,
        _quoted_rates(1700, fp32=22.6, bf16=181.0, fp16=181.0, int8=181.0), 1638.4, ("amd-cdna2",)),
    # Tools list each die of an MI250 or MI250X as a device, so the quoted rates are halved.
    Model(("AMD Instinct MI250", "AMD INSTINCT MI250"), ("1002:740c",), "cdna2", 104,
        _quoted_rates(1700, fp32=45.3 / 2, bf16=362.1 / 2, fp16=362.1 / 2, int8=362.1 / 2), 1638.4, ("amd-cdna2", "rocm-mi250")),
    Model(("AMD Instinct MI250X",), ("1002:7408", "1002:740c"), "cdna2", 110,
        _quoted_rates(1700, fp32=47.9 / 2, bf16=383.0 / 2, fp16=383.0 / 2, int8=383.0 / 2), 1638.4, ("amd-cdna2",)),
    Model(("AMD Instinct MI300A", "MI300A"), ("1002:74a0",), "cdna3", 228,
        _quoted_rates(2100, fp32=122.6, tf32=490.3, bf16=980.6, fp16=980.6, fp8=1961.2, int8=1961.2), 5300, ("amd-cdna3",)),
    Model(("AMD Instinct MI300X",), ("1002:74a1",), "cdna3", 304, _MI300X, 5300, ("amd-cdna3", "rocm-mi300")),
    Model(("AMD Instinct MI325X",), ("1002:74a5",), "cdna3", 304, _MI300X, 6000, ("amd-cdna3",)),
    Model(("AMD Instinct MI350X",), ("1002:75a0",), "cdna4", 256,
        _quoted_rates(2200, fp32=144.2, bf16=2300.0, fp16=2300.0, fp8=4600.0, int8=4600.0), 8000, ("amd-cdna4",)),
    Model(("AMD Instinct MI355X",), ("1002:75a3",), "cdna4", 256,
        _quoted_rates(2400, fp32=157.3, bf16=2500.0, fp16=2500.0, fp8=5000.0, int8=5000.0), 8000, ("amd-cdna4",)),
)
# fmt: on

# A memory slice of MIG is "roughly one eighth of the total GPU memory resources, including both capacity and bandwidth"
# (MIG user guide, Concepts). Compute instances (1c.3g.40gb) share memory slices, and are excluded.
_MIG_PROFILE = re.compile(r"[0-9]g\.([0-9]+)gb(?:[+-][a-z.]+)?\Z")
_MIG_SLICES = 8
_GIBIBYTE = 2.0**30
# The partition modes of an AMD card without partitions.
_UNDIVIDED = frozenset({"", "SPX", "N/A"})


class CardPart(NamedTuple):
    """The properties that determine a device's share of its card's peak rates."""

    units: float | None  # compute units of the device
    model_units: int | None  # compute units of an undivided card
    is_partition: bool = False
    compute_partition: str = ""
    profile: str = ""  # the profile of a MIG instance
    card_memory_bytes: float | None = None  # the memory of the whole card

    @property
    def is_partial(self) -> bool:
        """Return whether the device is less than a whole card."""
        return self.is_partition or self.compute_partition not in _UNDIVIDED


def peak_of_part(peak: PeakRates, part: CardPart) -> PeakRates | None:
    """Return the peak rates of a device that may be only a part of a card, or None if unknown."""
    if not part.is_partial:
        return peak if None in (part.units, part.model_units) or part.units == part.model_units else None
    if part.units is None or part.model_units is None or part.units > part.model_units:
        return None
    share = part.units / part.model_units
    rates = (Rate(rate.dtype, _scale(rate.flops, share), _scale(rate.flops_per_cycle, share)) for rate in peak.rates)
    memory = _scale(peak.memory_bytes_per_second, _memory_share(part))
    return replace(peak, rates=tuple(rates), memory_bytes_per_second=memory)


def _memory_share(part: CardPart) -> float | None:
    """Return a MIG instance's share of its card's memory, or None if the profile or the memory is unknown."""
    match = _MIG_PROFILE.match(part.profile)
    if match is None or not part.card_memory_bytes:
        return None
    slices = round(_MIG_SLICES * int(match[1]) * _GIBIBYTE / part.card_memory_bytes)
    return slices / _MIG_SLICES if 0 < slices <= _MIG_SLICES else None


def _scale(value: float | None, share: float | None) -> float | None:
    return None if value is None or share is None else value * share


def peak_of(model: str, pci_id: str = "") -> PeakRates | None:
    """Return a whole card's peak rates, or None if neither the model nor the PCI id (`1002:74a1`) is known."""
    row = find_row(model, pci_id)
    return None if row is None else peak_of_row(row)


def find_row(model: str, pci_id: str = "") -> Model | None:
    """Return the row with this model name, else the row with this PCI id. Return None if the two contradict."""
    row = _rows_by_name().get(model)
    if row is None:
        return _rows_by_pci_id().get(pci_id)
    return None if pci_id and row.pci_ids and pci_id not in row.pci_ids else row


def peak_of_row(row: Model) -> PeakRates:
    """Return the peak rates of a row's model, as the vendor quotes them."""
    per_unit = OPERATIONS_PER_UNIT[row.architecture]
    rates = (Rate(dtype, rate.teraflops * 1e12, float(row.units * per_unit[dtype])) for dtype, rate in row.quoted)
    memory = row.memory_gigabytes_per_second
    return PeakRates(tuple(rates), None if memory is None else memory * 1e9, "vendor")


@cache
def _rows_by_name() -> Mapping[str, Model]:
    return {name: row for row in ROWS for name in row.names}


@cache
def _rows_by_pci_id() -> Mapping[str, Model]:
    ids = [pci_id for row in ROWS for pci_id in row.pci_ids]
    return {pci_id: row for row in ROWS for pci_id in row.pci_ids if ids.count(pci_id) == 1}
