"""Measure everything and write the page: what `make bench` runs.

python bench/speed.py --traces DIR [--quick] [--only real,peers,lengths,curves,sweep] [--rounds 3]
    [--entries '^(as recorded|3 times as fast)$']

A section that is measured again takes the place of the old one, and so does an entry of `real`
whose name --entries finds; every ratio is of one entry, so of one run. Results go to
bench/results.json and docs/performance.md, those of a quick run to build/bench/.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import curves
import orjson
import sweeps
import versus_peers
import versus_real
from cases import AZURE, MOONCAKE
from page import page
from setting import HERE, ROOT, Setting, load, machine, now
from targets import targets

if TYPE_CHECKING:
    from collections.abc import Callable

SECTIONS: dict[str, Callable[[Setting], list[dict[str, Any]]]] = {
    "real": versus_real.measure,
    "peers": versus_peers.measure,
    "lengths": curves.measure_lengths,
    "curves": curves.measure,
    "sweep": sweeps.measure,
}


def main() -> None:
    """Measure, write, and say which ratios were reached."""
    given = _arguments()
    build = ROOT / "build/bench"
    build.mkdir(parents=True, exist_ok=True)
    file = (build if given.quick else HERE) / "results.json"
    results = orjson.loads(file.read_bytes()) if file.exists() else {"sections": {}}
    for name in given.only.split(","):
        print(name, file=sys.stderr)
        with tempfile.TemporaryDirectory(dir=build) as scratch:
            setting = Setting(given.traces, Path(scratch), given.quick, given.rounds, given.entries)
            measured = _section(name, setting)
            old = results["sections"].get(name) if given.entries else None
            results["sections"][name] = _merged(old, measured) if old else measured
        _write(results, file, build if given.quick else ROOT / "docs")
    for each in targets(results["sections"]):
        mark = "reached" if each.met else "MISSED "
        print(
            f"{mark} {each.entry}: {each.what}: {each.found:.4g} "
            f"[{each.least:.4g} to {each.most:.4g}], wanted {each.bound} {each.wanted:.4g}"
        )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--traces", type=Path, required=True, help="folder of the public traces")
    parser.add_argument("--quick", action="store_true", help="a first slice, in minutes")
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, by comma")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--entries", default="", help="of `real`, those whose names this finds")
    given = parser.parse_args()
    if given.entries and given.only != "real":
        parser.error("--entries goes with --only real")
    for name in (AZURE, MOONCAKE):
        if not (given.traces / name).is_file():
            parser.error(f"--traces {given.traces}: there is no {name} in it")
    if unknown := set(given.only.split(",")) - set(SECTIONS):
        parser.error(f"--only: {', '.join(unknown)} is none of {', '.join(SECTIONS)}")
    return given


def _section(name: str, setting: Setting) -> dict[str, Any]:
    head = {"measured_at": now(), "quick": setting.quick, "machine": machine()}
    before = load()
    entries = SECTIONS[name](setting)
    return {**head, "load_before": before, "load_after": load(), "entries": entries}


def _merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """A section with entries that were measured again, each of which says when and where."""
    head = {name: value for name, value in new.items() if name != "entries"}
    again = {entry["name"]: {**entry, "measured": head} for entry in new["entries"]}
    entries = [again.get(entry["name"], entry) for entry in old["entries"]]
    return {**old, "entries": entries}


def _write(results: dict[str, Any], file: Path, pages: Path) -> None:
    """The figures, the page, and every profile as a file of its own."""
    options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    file.write_bytes(orjson.dumps(results, option=options))
    (pages / "performance.md").write_text(page(results))
    profiles = file.parent / "profiles"
    profiles.mkdir(exist_ok=True)
    for section in results["sections"].values():
        for entry in section["entries"]:
            if "profile" in entry:
                name = re.sub(r"[^a-z0-9]+", "-", entry["name"].lower())
                (profiles / f"{name}.txt").write_text(entry["profile"] + "\n")


if __name__ == "__main__":
    main()
