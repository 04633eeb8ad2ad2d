"""Azure LLM inference traces of 2023, 2024 (text) and 2025 (with image counts).

`2023-11-16 18:17:03.9799600,4808,10`: seven decimals and no zone in 2023; an offset, and no
fraction at all where it is zero, in 2024; `T...Z`, milliseconds and an image count in 2025.
"""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from schedbench.errors import UsageError
from schedbench.workloads.csv_text import header_line, names_in, read_csv_text
from schedbench.workloads.files import Source
from schedbench.workloads.importers.draft import Batches, Draft, Importer, Published, token_counts
from schedbench.workloads.importers.options import ImportOptions
from schedbench.workloads.importers.report import Report
from schedbench.workloads.importers.times import Clock
from schedbench.workloads.schema import BY_NAME, REQUIRED

_TEXT = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
_IMAGES = "NumImages"


def read(source: Source, options: ImportOptions, report: Report) -> Draft:
    has_images = _IMAGES in names_in(header_line(source))
    if options.tokens_per_image is not None and not has_images:
        raise UsageError("--tokens-per-image needs a trace that counts images")
    clock, batches = Clock("datetime", options.tz), Batches(source.place)
    for place, text in read_csv_text(source, (*_TEXT, *([_IMAGES] if has_images else []))):
        batches.add(
            place,
            arrival_ns=clock.read(text.column(_TEXT[0]), _TEXT[0], place),
            prompt_tokens=token_counts(text.column(_TEXT[1]), _TEXT[1], place),
            output_tokens=token_counts(text.column(_TEXT[2]), _TEXT[2], place),
        )
        if has_images:
            batches.add(place, _images=token_counts(text.column(_IMAGES), _IMAGES, place))
    table = batches.table()
    if has_images:
        table = _with_images(table, options.tokens_per_image, report)
    names = dict(zip(REQUIRED, _TEXT, strict=True))
    return Draft(table, clock, replace(batches.place, names=names))


def _with_images(table: pa.Table, tokens_each: int | None, report: Report) -> pa.Table:
    counts = table.column("_images").to_numpy()
    if tokens_each is not None:
        report.infer("encoder", f"each image was taken for {tokens_each} tokens, none alike")
        return table.append_column("encoder", _encoder_items(counts, tokens_each))
    labels, which = np.unique(counts, return_inverse=True)
    names = pa.array([f"{n} image{'s' * (n != 1)}" for n in labels.tolist()], pa.string())
    groups = pa.DictionaryArray.from_arrays(pa.array(which, pa.int32()), names)
    report.notes.append("image counts went to `group`; --tokens-per-image N makes encoder items")
    return table.append_column("group", groups)


def _encoder_items(counts: npt.NDArray[np.int32], tokens_each: int) -> pa.Array:
    """Images one behind the other from the start of the prompt, each with a hash of its own."""
    offsets = np.concatenate(([0], np.cumsum(counts)))
    total = int(offsets[-1])
    nth = np.arange(total) - np.repeat(offsets[:-1], counts)
    of_list = BY_NAME["encoder"].type
    items = pa.StructArray.from_arrays(
        [
            pa.array(nth * tokens_each, pa.int32()),
            pa.array(np.full(total, tokens_each), pa.int32()),
            pa.nulls(total, pa.int32()),
            pa.array(np.arange(total), pa.uint64()),
        ],
        fields=list(of_list.value_type),
    )
    absent = pa.array(counts == 0)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items, of_list, mask=absent)


AZURE = Importer(
    name="azure",
    summary="Azure LLM inference traces, 2023 to 2025 (CSV)",
    read=read,
    options=frozenset({"tz", "tokens_per_image"}),
    published=Published(
        url="https://github.com/Azure/AzurePublicDataset",
        licence="CC BY 4.0",
        attribution="Patel et al. (ISCA 2024), Stojkovic et al. (HPCA 2025), "
        "Qiu et al. (SoCC 2025)",
    ),
)
