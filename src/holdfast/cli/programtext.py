"""A program's text with its line numbers, and a mark at the line where it stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from holdfast.history.preview import escape


def drawn(code: str, marks: Mapping[int, str], width: int | None) -> Iterator[str]:
    """The lines; `marks` has a sign for some of them, by number."""
    from holdfast.cli.output import cut, styled

    lines = code.rstrip("\n").split("\n")
    digits = len(str(len(lines)))
    for number, line in enumerate(lines, start=1):
        sign = marks.get(number, "")
        text = cut(f"{sign:>2} {number:>{digits}}  {escape(line.expandtabs())}".rstrip(), width)
        yield styled(text, bold=True) if sign else text
