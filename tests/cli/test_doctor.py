import json
import re
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from cli_runs import Cli

from schedbench.cli import doctor
from schedbench.results.extras import EXTRAS, remedy


def test_versions_are_shown_and_what_is_missing_for_what(cli: Cli) -> None:
    found = json.loads(cli("doctor", "--json").out)
    assert found["packages"]["schedbench"] == "0.1.0"
    assert found["packages"]["pyarrow"]
    assert found["missing"].keys() == {
        name for name, version in found["packages"].items() if version is None
    }
    text = cli("doctor").out
    assert all(name in text for name in found["packages"])


def test_a_vllm_that_another_wheel_brought_has_its_version(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def version(name: str) -> str:
        if name == "vllm":
            raise PackageNotFoundError(name)
        return "0.26.0"

    found = doctor.find_spec
    monkeypatch.setattr(
        doctor, "find_spec", lambda name: object() if name == "vllm" else found(name)
    )
    monkeypatch.setattr(doctor, "version", version)
    assert json.loads(cli("doctor", "--json").out)["packages"]["vllm"] == "0.26.0"


def test_every_package_of_an_extra_is_listed_with_the_extra_that_brings_it() -> None:
    """Those for developing and testing apart."""
    root = Path(__file__).parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    brought = {
        (re.split(r"[>=<\[]", each)[0], name)
        for name, packages in extras.items()
        if name not in ("dev", "torch-test")
        for each in packages
    }
    listed = {(package, extra.name) for package, extra in EXTRAS.items() if extra.name}
    assert listed == {each for each in brought if each[0] != "schedbench"}
    assert all(f"'.[{name}]'" in remedy(package) for package, name in listed)
