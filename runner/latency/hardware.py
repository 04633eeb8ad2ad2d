"""What a GPU can do at most, by its datasheet; each row says where it was read.

Compute is dense bf16 (no sparsity): several pages give the sparse figure as dense, which is twice
as much. A link is told one way: half of what vendors print, who add both. `unverified` names the
fields of a row that were compared with no page and no log yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from schedbench.errors import UsageError

GIB: Final = 2**30
TERA: Final = 1e12
GIGA: Final = 1e9
_MEMORY = ("memory_gib", "num_sms", "link_gb_s")


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU. `memory_gib` is what the driver lets a process see, below the number on the box."""

    name: str
    bf16_tflops: float
    bandwidth_gb_s: float
    memory_gb: int
    memory_gib: float
    num_sms: int
    link_gb_s: float  # to a peer, one way
    source: str
    unverified: tuple[str, ...] = _MEMORY
    measured_tflops: float | None = None  # best seen in a large matrix product
    measured_gb_s: float | None = None  # best seen in a large copy

    @property
    def flops(self) -> float:
        """Ceiling for matrix products, per second: what was measured, else the datasheet."""
        return (self.measured_tflops or self.bf16_tflops) * TERA

    @property
    def bandwidth(self) -> float:
        """Ceiling for memory traffic, bytes per second: what was measured, else the datasheet."""
        return (self.measured_gb_s or self.bandwidth_gb_s) * GIGA

    @property
    def total_memory_bytes(self) -> int:
        """Memory as `torch.cuda.mem_get_info` would report it, to the digits of the table."""
        return int(self.memory_gib * GIB)


GPUS: Final[tuple[Gpu, ...]] = (
    Gpu(
        "H100-SXM",
        989,
        3350,
        80,
        79.19,
        132,
        450,
        "hpctech.co.jp, both H100; hmc-tech.com comparison; BLIS hardware_config",
        ("memory_gib",),
    ),
    Gpu(
        "H100-PCIe",
        756,
        2000,
        80,
        79.19,
        114,
        64,
        "hpctech.co.jp, both H100; docs.nvidia.com launchpad h100-mig (2 TB/s, 114 SMs)",
        ("memory_gib",),
    ),
    Gpu(
        "H200",
        989,
        4800,
        141,
        139.8,
        132,
        450,
        "itkb.uw.cz datasheet; ceilings measured on one H200",
        measured_tflops=790,
        measured_gb_s=4300,
    ),
    Gpu(
        "A100-40GB",
        312,
        1555,
        40,
        39.49,
        108,
        300,
        "glennklockwood.com of NVIDIA's datasheet; hmc-tech.com; PC2 Paderborn's device query "
        "(42,405,855,232 bytes)",
        (),
    ),
    Gpu(
        "A100-80GB-SXM",
        312,
        2039,
        80,
        79.19,
        108,
        300,
        "glennklockwood.com of NVIDIA's datasheet; BLIS hardware_config",
        ("memory_gib",),
    ),
    Gpu(
        "A100-80GB-PCIe",
        312,
        1935,
        80,
        79.19,
        108,
        32,
        "thundercompute.com table; the chip and PCIe 4.0 as in the other A100",
        ("memory_gib",),
    ),
    Gpu(
        "L40S",
        362,
        864,
        48,
        44.4,
        142,
        32,
        "mullet.se datasheet table; BLIS hardware_config; torch's own message in "
        "stepfun-ai/Step-Video-T2V issue 8 (44.42 GiB)",
        ("num_sms", "link_gb_s"),
    ),
    Gpu(
        "L4",
        121,
        300,
        24,
        22.0,
        58,
        32,
        "hmc-tech.com comparison",
        ("bf16_tflops", "bandwidth_gb_s", *_MEMORY),
    ),
    Gpu("B200", 2250, 8000, 180, 178.0, 148, 900, "hmc-tech.com; rooflinenotes.dev accelerators"),
    Gpu("MI300X", 1307, 5300, 192, 191.7, 304, 448, "hmc-tech.com; rooflinenotes.dev accelerators"),
)
_ALIASES: Final = {"H100": "H100-SXM", "A100": "A100-80GB-SXM", "A100-80GB": "A100-80GB-SXM"}


def find_gpu(name: str) -> Gpu:
    """Look a GPU up as people write it: case, spaces and underscores do not matter.

    Raises:
        UsageError: there is no row of that name.
    """
    gpu = known_gpu(name)
    if gpu is None:
        raise UsageError(
            f"--gpu {name}: not in the table; there are {', '.join(gpu.name for gpu in GPUS)}"
        )
    return gpu


def known_gpu(name: str) -> Gpu | None:
    """`find_gpu`, with None where there is no such row."""
    wanted = _key(name)
    wanted = _key(_ALIASES.get(wanted.upper(), wanted))
    return next((gpu for gpu in GPUS if _key(gpu.name) == wanted), None)


def recognise_gpu(device_name: str) -> Gpu | None:
    """The row for a name that a driver reports, such as `NVIDIA H100 80GB HBM3`; None if none."""
    text = device_name.upper()
    for mark, name in (
        ("H200", "H200"),
        ("H100 PCIE", "H100-PCIe"),
        ("H100", "H100-SXM"),
        ("A100-SXM4-80GB", "A100-80GB-SXM"),
        ("A100 80GB PCIE", "A100-80GB-PCIe"),
        ("A100", "A100-40GB"),
        ("L40S", "L40S"),
        ("NVIDIA L4", "L4"),
        ("B200", "B200"),
        ("MI300X", "MI300X"),
    ):
        if mark in text and "NVL" not in text:
            return find_gpu(name)
    return None


def _key(name: str) -> str:
    return name.lower().replace("_", "-").replace(" ", "-")
