import json

from cli_runs import Cli


def test_versions_are_shown_and_what_is_missing_for_what(cli: Cli) -> None:
    found = json.loads(cli("doctor", "--json").out)
    assert found["packages"]["schedbench"] == "0.1.0"
    assert found["packages"]["pyarrow"]
    assert found["missing"].keys() == {
        name for name, version in found["packages"].items() if version is None
    }
    text = cli("doctor").out
    assert all(name in text for name in found["packages"])
