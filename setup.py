"""Builds the package; what takes part in every step of a replay of plain text is compiled.

A wheel, as `pip install .` makes one, holds the modules below as mypyc's C and as the Python that
they are. An editable install has the Python alone, so that what is edited is what runs; so has a
wheel where they cannot be compiled. SCHEDBENCH_COMPILED=required makes that an error, =no leaves
the compiler alone. `schedbench doctor` tells which is installed.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from setuptools import setup
from setuptools.command.build_ext import build_ext

if TYPE_CHECKING:
    from setuptools import Extension

MODULES = [
    "schedbench/sched/express.py",
    "schedbench/sched/express_ahead.py",
    "schedbench/sched/kv_cache/block_pool.py",
    "schedbench/sched/kv_cache/block_table.py",
    "schedbench/sched/kv_cache/free_queue.py",
    "schedbench/sched/kv_cache/what_if.py",
    "schedbench/sched/prefix_identity.py",
    "schedbench/runner/cut.py",
    "schedbench/runner/decision_digest.py",
    "schedbench/runner/express.py",
    "schedbench/runner/express_ahead.py",
    "schedbench/runner/express_arrivals.py",
    "schedbench/runner/express_batch.py",
]
LENIENT = [
    "--follow-imports=silent",  # types are checked by `make check`
    "--ignore-missing-imports",  # what is imported need not be installed where a wheel is built
    "--no-warn-return-any",
    "--no-warn-unused-ignores",
]
ASKED = os.environ.get("SCHEDBENCH_COMPILED", "")
LEFT_BEHIND = ("lib*", "temp*", "bdist*", "schedbench", "__native*", "*__mypyc*")


def compiled() -> list[Extension]:
    """Extensions of a wheel; none of anything else, or where they cannot be made."""
    if ASKED not in {"", "no", "required"}:
        sys.exit(f"SCHEDBENCH_COMPILED={ASKED}: write no or required, or leave it out")
    if "bdist_wheel" not in sys.argv or ASKED == "no":
        return []
    for each in (path for kind in LEFT_BEHIND for path in Path("build").glob(kind)):
        shutil.rmtree(each) if each.is_dir() else each.unlink()  # an older build's
    try:
        compile_a_line()
        from mypyc.build import mypycify  # noqa: PLC0415 - where a wheel is built, and only there

        return list(mypycify([*LENIENT, *MODULES]))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever stands in the way
        give_up(error)
        return []


def give_up(error: BaseException) -> None:
    """Go on with the Python alone, unless that is not wanted."""
    if ASKED == "required":
        raise error
    print(f"schedbench is not compiled: {error or type(error).__name__}", file=sys.stderr)  # noqa: T201


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


class BuildAllOrNothing(build_ext):
    """Extensions that lean on each other: where one cannot be built, none is kept."""

    def run(self) -> None:
        """Build them."""
        try:
            super().run()
        except Exception as error:  # noqa: BLE001 - whatever the compiler says
            give_up(error)
            for each in self.extensions:
                Path(self.get_ext_fullpath(each.name)).unlink(missing_ok=True)
            self.extensions = []


setup(ext_modules=compiled(), cmdclass={"build_ext": BuildAllOrNothing})
