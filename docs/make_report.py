"""Puts what `bench/report.py` prints into docs/report.md: `python docs/make_report.py`.

Some minutes and 1 GB of disk; the times are of the machine, and Chromium opens the page.
"""

from outputs import ROOT, renew

if __name__ == "__main__":
    renew(ROOT / "docs" / "report.md", "python bench/report.py")
