"""What an import did to the rows, counted by reason, for provenance and for people."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Report:
    """`notes` are sentences to print; `inferred` names columns that no source column states."""

    notes: list[str] = field(default_factory=list)
    dropped: dict[str, int] = field(default_factory=dict)
    changed: dict[str, int] = field(default_factory=dict)
    inferred: list[str] = field(default_factory=list)

    def drop(self, rows: int, what: str) -> None:
        self._count(self.dropped, rows, what)

    def change(self, rows: int, what: str) -> None:
        self._count(self.changed, rows, what)

    def _count(self, counts: dict[str, int], rows: int, what: str) -> None:
        if rows:
            counts[what] = rows
            self.notes.append(f"{what}: {rows:,}")

    def infer(self, column: str, note: str) -> None:
        self.inferred.append(column)
        self.notes.append(note)
