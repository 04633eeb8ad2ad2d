"""Puts what its commands really print into docs/upgrade.md.

python docs/make_upgrade.py
"""

from consoles import DOCS, with_outputs

PAGE = DOCS / "upgrade.md"

if __name__ == "__main__":
    PAGE.write_text(with_outputs(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
