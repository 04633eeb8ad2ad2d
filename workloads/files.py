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
from schedbench.workloads.containers import HEAD_BYTES, PARQUET_MAGIC, refuse_other_containers
from schedbench.workloads.place import Place, printable

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
    """The file behind a path or URI.

    Raises:
        TraceError: there is none to read, or it is in a container that is not read.
    """
    uri = fspath(path) if hasattr(path, "__fspath__") else str(path)
    place = Place(uri)
    with faults(place):
        filesystem, inner = _located(uri, place)
        kind = filesystem.get_file_info(inner)
    if uri == "-" or kind.type == pa.fs.FileType.Unknown:
        found = "is a pipe or a device, and a trace is read more than once"
        raise place.refuse_input(found, "Write it to a file first, and name that")
    if kind.type == pa.fs.FileType.NotFound:
        raise place.refuse_input("there is no such file", "Check the path")
    if kind.type == pa.fs.FileType.Directory:
        raise place.refuse_input("is a folder, not a file", "Name one file in it")
    if kind.size == 0:
        raise place.refuse_input("is empty (0 bytes)", "Check how it was made or copied")
    source = Source(uri, filesystem, inner)
    with faults(place):
        was_packed = source.compression() is not None
        refuse_other_containers(source.head(HEAD_BYTES), place, was_packed=was_packed)
    return source


def _located(uri: str, place: Place) -> tuple[Any, str]:
    """The file system that a path or URI names, and the path there."""
    scheme, colon, _ = uri.partition("://")
    if not colon:
        return pa.fs.LocalFileSystem(), str(Path(uri).absolute())
    if scheme.lower() in {"http", "https", "ftp"}:
        raise place.refuse_input("is on the web, and only files are read", "Download it first")
    try:
        filesystem, inner = pa.fs.FileSystem.from_uri(uri)
    except (pa.ArrowException, ValueError) as error:
        found = f"cannot be located: {_first_line(error)}"
        remedy = "Name a path, or a URI that pyarrow knows, such as file:///... or s3://..."
        raise place.refuse_input(found, remedy) from error
    return filesystem, inner


def open_parquet(source: Source) -> pq.ParquetFile:
    """The file's footer, read; one that lacks it was cut short."""
    file = source.raw()
    file.seek(-len(PARQUET_MAGIC), os.SEEK_END)
    if file.read(len(PARQUET_MAGIC)) != PARQUET_MAGIC:
        found = "begins as Parquet but does not end so: it is cut short"
        raise source.place.refuse_input(found, "Copy it again, or let its writer finish")
    try:
        return pq.ParquetFile(file)
    except (pa.ArrowException, OSError) as error:
        if "encrypt" not in str(error).lower() and "decrypt" not in str(error).lower():
            raise
        remedy = "Write it without encryption"
        raise source.place.refuse_input(
            "is encrypted Parquet, which is not read", remedy
        ) from error


@contextmanager
def faults(place: Place) -> Iterator[None]:
    """Turn what reading can raise into an error for people; a torn file is one of them."""
    try:
        yield
    except TraceError:
        raise
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        remedy = "The file is damaged, cut short or not what its name says: copy it again"
        raise place.refuse_input(f"cannot be read: {_first_line(error)}", remedy) from error


def _first_line(error: Exception) -> str:
    """The words of another library, without control characters of what it read."""
    return printable(str(error).partition("\n")[0].rstrip("."))
