"""Files that are no CSV, JSON Lines or Parquet, known by their magic bytes, each with a remedy."""

from dataclasses import dataclass

from schedbench.workloads.place import Place

PARQUET_MAGIC = b"PAR1"
HEAD_BYTES = 512


@dataclass(frozen=True, slots=True)
class Container:
    """`magic` stands at byte `at`; `name` completes "is ...", `remedy` says what to do."""

    name: str
    magic: bytes
    remedy: str
    at: int = 0

    def holds(self, head: bytes) -> bool:
        return head.startswith(self.magic, self.at)


def _unpack(tool: str) -> str:
    return f"Unpack it first ({tool}); gzip and zstd are read as they are"


def _load(reader: str) -> str:
    return f"Write it as Parquet first: pandas.{reader}(FILE).to_parquet('trace.parquet')"


_RECODE = "Write it as UTF-8: iconv -f UTF-16 -t UTF-8 FILE > trace.csv"
_CONTAINERS = (
    Container("compressed with bzip2", b"BZh", _unpack("bunzip2")),
    Container("compressed with xz", b"\xfd7zXZ\x00", _unpack("unxz")),
    Container("compressed with LZMA", b"\x5d\x00\x00", _unpack("unlzma")),
    Container("compressed with lz4", b"\x04\x22\x4d\x18", _unpack("unlz4")),
    Container("compressed with Snappy", b"\xff\x06\x00\x00sNaPpY", _unpack("snzip -d")),
    Container("compressed with compress", b"\x1f\x9d", _unpack("uncompress")),
    Container("compressed twice", b"\x1f\x8b", _unpack("gunzip, once")),
    Container("compressed twice", b"\x28\xb5\x2f\xfd", _unpack("unzstd, once")),
    Container("a zip archive or an Excel workbook", b"PK\x03\x04", "Unpack it, or save it as CSV"),
    Container("an empty zip archive", b"PK\x05\x06", "Check how it was made"),
    Container("a 7z archive", b"7z\xbc\xaf\x27\x1c", _unpack("7z x")),
    Container("a RAR archive", b"Rar!\x1a\x07", _unpack("unrar x")),
    Container("a tar archive", b"ustar", "Unpack it first (tar -xf), and name one file of it", 257),
    Container("Feather or Arrow IPC", b"ARROW1", _load("read_feather")),
    Container("Feather of version 1", b"FEA1", _load("read_feather")),
    Container("an Arrow IPC stream", b"\xff\xff\xff\xff", "Write it as Parquet first"),
    Container("ORC", b"ORC", _load("read_orc")),
    Container("Avro", b"Obj\x01", "Write it as Parquet or JSON Lines first"),
    Container("encrypted Parquet", b"PARE", "Write it without encryption"),
    Container("an SQLite database", b"SQLite format 3\x00", _load("read_sql")),
    Container("a DuckDB database", b"DUCK", "Write it first: COPY (...) TO 'trace.parquet'", 8),
    Container("a NumPy array", b"\x93NUMPY", "Write it as CSV or Parquet, with names of columns"),
    Container("HDF5", b"\x89HDF\r\n\x1a\n", _load("read_hdf")),
    Container("an old Excel workbook", b"\xd0\xcf\x11\xe0", "Save it as CSV"),
    Container("a PDF", b"%PDF", "Name the trace itself"),
    Container("an HTML page", b"<!DOCTYPE", "The download gave a page: download the file itself"),
    Container("an HTML page", b"<html", "The download gave a page: download the file itself"),
    Container("UTF-16 text", b"\xff\xfe", _RECODE),
    Container("UTF-16 text", b"\xfe\xff", _RECODE),
    *(
        Container("a Python pickle", bytes((0x80, version)), _load("read_pickle"))
        for version in range(2, 6)
    ),
)
_LFS = Container(
    "a Git LFS pointer, not the file itself",
    b"version https://git-lfs",
    "Fetch the file: git lfs pull",
)


def refuse_other_containers(head: bytes, place: Place, *, was_packed: bool) -> None:
    """Judge a file by its first bytes, any gzip or zstd taken off.

    Raises:
        TraceError: it is in a container that is not read, or is binary of no known kind.
    """
    if head.startswith(PARQUET_MAGIC):
        if was_packed:
            found = "is Parquet that was compressed as a whole"
            raise place.refuse_input(found, "Unpack it first (gunzip, unzstd)")
        return
    for container in (*_CONTAINERS, _LFS):
        if container.holds(head):
            raise place.refuse_input(f"is {container.name}, which is not read", container.remedy)
    if b"\x00" in head.partition(b"\n")[0]:
        found = "is binary and of no kind known here: there is a NUL byte in its first line"
        raise place.refuse_input(found, "Write it as CSV, JSON Lines or Parquet in UTF-8")
