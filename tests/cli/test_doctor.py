import json
from importlib.metadata import PackageNotFoundError

import pytest
from cli_runs import Cli

from schedbench.cli import doctor


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
