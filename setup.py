"""Builds the package; what takes part in every step of a replay of plain text is compiled.

A wheel, as `pip install .` makes one, holds the modules below as mypyc's C and as the Python that
they are. An editable install has the Python alone, so that what is edited is what runs; so has a
wheel where there is no C compiler. SCHEDBENCH_COMPILED=required makes that an error, =no leaves
the compiler alone. `schedbench doctor` tells which is installed.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from setuptools import setup

if TYPE_CHECKING:
    from setuptools import Extension

MODULES = [
    "schedbench/sched/express.py",
    "schedbench/sched/express_ahead.py",
    "schedbench/sched/kv_cache/counting.py",
    "schedbench/runner/cut.py",
    "schedbench/runner/decision_digest.py",
    "schedbench/runner/express.py",
    "schedbench/runner/express_ahead.py",
    "schedbench/runner/express_batch.py",
]
LENIENT = [
    "--follow-imports=silent",  # types are checked by `make check`
    "--ignore-missing-imports",  # what is imported need not be installed where a wheel is built
    "--no-warn-return-any",
    "--no-warn-unused-ignores",
]
ASKED = os.environ.get("SCHEDBENCH_COMPILED", "if possible")


def compiled() -> list[Extension]:
    """Extensions of a wheel; none of anything else, or where they cannot be made."""
    if "bdist_wheel" not in sys.argv or ASKED == "no":
        return []
    try:
        compile_a_line()
    except Exception as error:
        if ASKED == "required":
            raise
        print(f"no C compiler, so that nothing is compiled: {error}", file=sys.stderr)  # noqa: T201
        return []
    from mypyc.build import mypycify  # noqa: PLC0415 - where a wheel is built, and only there

    return list(mypycify([*LENIENT, *MODULES]))


def compile_a_line() -> None:
    """Compile what needs Python's own header; any error means that it cannot be done."""
    from setuptools._distutils.ccompiler import new_compiler  # noqa: PLC0415
    from setuptools._distutils.sysconfig import customize_compiler, get_python_inc  # noqa: PLC0415

    compiler = new_compiler()
    customize_compiler(compiler)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "line.c"
        source.write_text("#include <Python.h>\nint main(void) { return 0; }\n")
        compiler.compile([str(source)], output_dir=folder, include_dirs=[get_python_inc()])


setup(ext_modules=compiled())
