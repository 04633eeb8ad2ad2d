"""Inputs by path or URI, with gzip and zstd taken off by content; faults become TraceErrors."""

import hashlib
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import fspath
from pathlib import Path, PurePath
from typing import Any

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from schedbench.errors import TraceError
from schedbench.workloads.place import Place

PARQUET_MAGIC = b"PAR1"
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_HASHED_AT_ONCE = 1 << 22
_LONGEST_LINE = 1 << 26


@dataclass(frozen=True, slots=True)
class Source:
    """One file, wherever pyarrow can find it."""

    uri: str
    filesystem: Any
    path: str

    @property
    def place(self) -> Place:
        return Place(self.uri)

    @property
    def name(self) -> str:
        return PurePath(self.path).name

    def raw(self) -> pa.NativeFile:
        """The bytes as they are stored, seekable."""
        return self.filesystem.open_input_file(self.path)

    def compression(self) -> str | None:
        with self.raw() as file:
            head = file.read(4)
        return next((name for magic, name in _MAGIC.items() if head.startswith(magic)), None)

    def stream(self) -> pa.NativeFile:
        """The bytes with any compression taken off; reading a torn file raises OSError."""
        kind = self.compression()
        file = self.filesystem.open_input_stream(self.path, compression=None)
        return file if kind is None else pa.CompressedInputStream(file, kind)

    def head(self, size: int) -> bytes:
        with self.stream() as stream:
            return bytes(stream.read(size))

    def first_line(self) -> bytes:
        with self.stream() as stream, io.BufferedReader(stream) as lines:
            return lines.readline(_LONGEST_LINE)

    def fingerprint(self) -> dict[str, Any]:
        """Name, stored size in bytes and SHA-256, for provenance."""
        running, size = hashlib.sha256(), 0
        with self.raw() as file:
            while block := file.read(_HASHED_AT_ONCE):
                running.update(block)
                size += len(block)
        return {"name": self.name, "bytes": size, "sha256": running.hexdigest()}


def find(path: object) -> Source:
    """The file behind a path or URI; raises TraceError when there is none to read."""
    uri = fspath(path) if hasattr(path, "__fspath__") else str(path)
    place = Place(uri)
    with faults(place):
        if "://" in uri:
            filesystem, inner = pa.fs.FileSystem.from_uri(uri)
        else:
            filesystem, inner = pa.fs.LocalFileSystem(), str(Path(uri).absolute())
        kind = filesystem.get_file_info(inner)
    if kind.type == pa.fs.FileType.NotFound:
        raise place.refuse_input("there is no such file", "Check the path")
    if kind.type == pa.fs.FileType.Directory:
        raise place.refuse_input("is a folder, not a file", "Name one file in it")
    if kind.size == 0:
        raise place.refuse_input("is empty (0 bytes)", "Check how it was made or copied")
    return Source(uri, filesystem, inner)


def open_parquet(source: Source) -> pq.ParquetFile:
    """The file's footer, read; one that lacks it was cut short."""
    file = source.raw()
    file.seek(-len(PARQUET_MAGIC), os.SEEK_END)
    if file.read(len(PARQUET_MAGIC)) != PARQUET_MAGIC:
        found = "begins as Parquet but does not end so: it is cut short"
        raise source.place.refuse_input(found, "Copy it again, or let its writer finish")
    return pq.ParquetFile(file)


@contextmanager
def faults(place: Place) -> Iterator[None]:
    """Turn what reading can raise into an error for people; a torn file is one of them."""
    try:
        yield
    except TraceError:
        raise
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        first_line = str(error).partition("\n")[0].rstrip(".")
        remedy = "The file is damaged, cut short or not what its name says: copy it again"
        raise place.refuse_input(f"cannot be read: {first_line}", remedy) from error
