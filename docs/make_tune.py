"""Puts what `bench/tune_versus_grid.py` prints into docs/tune.md: `python docs/make_tune.py`.

Some minutes of two cores. Nothing in it depends on the machine or the time of day.
"""

from outputs import ROOT, renew

if __name__ == "__main__":
    renew(ROOT / "docs" / "tune.md", "python bench/tune_versus_grid.py")
