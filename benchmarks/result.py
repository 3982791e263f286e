"""What one benchmark found: a table, targets met or missed, notes; as text for a terminal and as Markdown."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Target:
    """One number that was aimed at before it was measured."""

    what: str
    measured: float
    at_most: float | None = None
    at_least: float | None = None
    unit: str = ""

    @property
    def met(self) -> bool:
        return (self.at_most is None or self.measured <= self.at_most) and (
            self.at_least is None or self.measured >= self.at_least
        )

    def __str__(self) -> str:
        bound = f"at most {self.at_most:g}" if self.at_most is not None else f"at least {self.at_least:g}"
        verdict = "met" if self.met else "MISSED"
        return f"{self.what}: {self.measured:.3g}{self.unit}, target {bound}{self.unit}: {verdict}"


@dataclass(kw_only=True)
class Result:
    """The findings of one benchmark."""

    name: str
    title: str
    how: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    picture: str | None = None  # the name of a file that lies where the page lies
    figures: dict[str, float] = field(default_factory=dict)  # for --json: plain numbers, seconds and bytes

    def add(self, *cells: str) -> None:
        self.rows.append(cells)

    def text(self) -> str:
        lines = [f"== {self.title}", self.how, ""]
        widths = [max(map(len, column)) for column in zip(self.columns, *self.rows, strict=True)]
        for row in (self.columns, tuple("-" * width for width in widths), *self.rows):
            cells = [
                row[0].ljust(widths[0]),
                *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)),
            ]
            lines.append("  ".join(cells).rstrip())
        lines += ["", *(f"  {target}" for target in self.targets), *(f"  {note}" for note in self.notes)]
        return "\n".join(lines).rstrip() + "\n"

    def markdown(self) -> str:
        lines = [f"## {self.title}", "", self.how, ""]
        aligned = ["---", *("---:" for _ in self.columns[1:])]
        lines += ["| " + " | ".join(row) + " |" for row in (self.columns, aligned, *self.rows)]
        lines += [""] if self.targets or self.notes else []
        lines += [f"- {target}" for target in self.targets]
        lines += [f"- {note}" for note in self.notes]
        lines += ["", f"![{self.title}]({self.picture})"] if self.picture else []
        return "\n".join(lines).rstrip() + "\n"
