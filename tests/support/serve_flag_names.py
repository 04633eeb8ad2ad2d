"""The names of all flags of an installed `vllm serve`, read off its source without importing it.

    python tests/support/serve_flag_names.py .venv-vllm 0.26.0

writes `serve_flags/0.26.0.json`: names only.
"""

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "serve_flags"
ENGINE = "engine/arg_utils.py"
CLASSES = ("BaseFrontendArgs", "FrontendArgs")


def flags_of(package: Path) -> list[str]:
    """Every spelling, sorted; `package` is the folder `vllm`."""
    sources = [package / ENGINE, *package.glob("entrypoints/**/cli_args.py")]
    trees = [ast.parse(path.read_text()) for path in sources]
    return sorted({name for tree in trees for name in _names(tree)})


def _names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument":
            for each in node.args:
                if isinstance(each, ast.Constant) and str(each.value).startswith("-"):
                    yield str(each.value)
        if isinstance(node, ast.ClassDef) and node.name in CLASSES:
            for line in node.body:
                if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
                    yield "--" + line.target.id.replace("_", "-")


def package_of(environment: Path) -> Path:
    return next(environment.glob("lib/python3*/site-packages/vllm"))


if __name__ == "__main__":
    found = flags_of(package_of(Path(sys.argv[1])))
    (FOLDER / f"{sys.argv[2]}.json").write_text(json.dumps(found, indent=0) + "\n")
