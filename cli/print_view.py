"""A view to stdout in the form that was asked for; its warnings to stderr."""

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from schedbench.cli import console
from schedbench.results.export import Format, write_view

if TYPE_CHECKING:
    from schedbench.results.sheet import View


def print_view(view: "View", form: Format) -> None:
    """Results go to stdout, everything else to stderr; JSON and Markdown keep the warnings too."""
    sentences = view.warnings
    if form in (Format.TABLE, Format.CSV):
        view = replace(view, warnings=())
    write_view(view, form, sys.stdout)
    sys.stdout.flush()
    for sentence in sentences:
        console.warning(sentence)
