"""How a file of another format is read: the options, and what is told of it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from schedbench.bounds import SEED, SOME
from schedbench.cli.values import parse_count, parse_optional_count

if TYPE_CHECKING:
    from schedbench.workloads.importers.options import ImportOptions
    from schedbench.workloads.trace import Trace

READING = "Reading other formats"


class OnZeroOutput(StrEnum):
    """What happens to requests that generated nothing."""

    ERROR = "error"
    DROP = "drop"
    ONE = "one"


class TimeUnit(StrEnum):
    """Units of recorded times."""

    S = "s"
    MS = "ms"
    US = "us"
    NS = "ns"


class DedupeIds(StrEnum):
    """What happens to repeated request ids."""

    SUFFIX = "suffix"


@dataclass(frozen=True)
class Reading:
    """How a file of another format is read. Has no effect on traces of this project's schema."""

    input_format: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="azure, mooncake, burstgpt, bailian, vllm-spans, recording or columns; found out "
            "by the content if not given. vllm-iterations makes a run of a server's log.",
            show_default=False,
            rich_help_panel=READING,
        ),
    ] = None
    map: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN=NAME,...",
            help="Name the columns of any CSV, JSON Lines or Parquet, times with their unit "
            "(s, ms, us, ns, datetime): arrival=ts:ms,prompt=isl,output=osl",
            show_default=False,
            rich_help_panel=READING,
        ),
    ] = None
    on_zero_output: Annotated[
        OnZeroOutput,
        typer.Option(
            help="Requests without an output token: refuse the file, drop them, or give each one.",
            rich_help_panel=READING,
        ),
    ] = OnZeroOutput.ERROR
    time_unit: Annotated[
        TimeUnit | None,
        typer.Option(
            help="Unit of the times, where the file does not follow its format.",
            show_default=False,
            rich_help_panel=READING,
        ),
    ] = None
    tz: Annotated[
        str | None,
        typer.Option(
            metavar="ZONE",
            help="Zone of dates that state none, such as Europe/Paris; UTC if not given.",
            show_default=False,
            rich_help_panel=READING,
        ),
    ] = None
    dedupe_ids: Annotated[
        DedupeIds | None,
        typer.Option(
            help="Make repeated request ids unique: the second `a` becomes `a-2`.",
            show_default=False,
            rich_help_panel=READING,
        ),
    ] = None
    strict_order: Annotated[
        bool,
        typer.Option(
            "--strict-order",
            help="Refuse rows that are out of order instead of sorting them.",
            rich_help_panel=READING,
        ),
    ] = False
    spread: Annotated[
        bool,
        typer.Option(
            "--spread",
            help="Draw the arrivals of one tick of a coarse clock evenly over that tick.",
            rich_help_panel=READING,
        ),
    ] = False
    spread_seed: Annotated[
        str, typer.Option(metavar="N", help="Seed of --spread.", rich_help_panel=READING)
    ] = "0"
    hash_block_tokens: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="Tokens that one prefix id covers, where not the format's usual number.",
            show_default=False,
            rich_help_panel=READING,
        ),
    ] = None
    tokens_per_image: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="Tokens of an image, for traces that only count images.",
            show_default=False,
            rich_help_panel=READING,
        ),
    ] = None


def import_options(reading: Reading) -> "ImportOptions":
    """What was typed, as the importers take it."""
    from schedbench.workloads.importers.mapping import parse_mapping
    from schedbench.workloads.importers.options import ImportOptions

    return ImportOptions(
        on_zero_output=reading.on_zero_output.value,
        strict_order=reading.strict_order,
        dedupe_ids=reading.dedupe_ids.value if reading.dedupe_ids else None,
        spread=reading.spread,
        seed=parse_count(reading.spread_seed, "--spread-seed", SEED),
        tz=reading.tz,
        time_unit=reading.time_unit.value if reading.time_unit else None,
        hash_block_tokens=parse_optional_count(
            reading.hash_block_tokens, "--hash-block-tokens", SOME
        ),
        tokens_per_image=parse_optional_count(reading.tokens_per_image, "--tokens-per-image", SOME),
        mapping=parse_mapping(reading.map) if reading.map else {},
    )


def notes_of(trace: "Trace") -> list[str]:
    """What to tell of a file that was imported just now; nothing of one in the own schema."""
    return [] if trace.stored_digest is not None else list(trace.provenance.get("notes", []))
