"""Puts the policies, and what their commands really print, into docs/policies.md.

    python docs/make_policies.py

`console` blocks are run by `consoles.py`; a block after `<!-- file: NAME -->` holds that file.
"""

import re

from consoles import DOCS, with_outputs

PAGE, POLICIES = DOCS / "policies.md", DOCS / "policies"
FILE = re.compile(r"(?P<mark><!-- file: (?P<name>\S+) -->\n)```python\n[\s\S]*?```")


def main() -> None:
    text = with_files(PAGE.read_text(encoding="utf-8"))
    PAGE.write_text(with_outputs(text, POLICIES), encoding="utf-8")


def with_files(text: str) -> str:
    """The page with each policy as it stands in its file."""
    return FILE.sub(
        lambda match: f"{match['mark']}```python\n{(POLICIES / match['name']).read_text()}```",
        text,
    )


if __name__ == "__main__":
    main()
