"""A file of Python that the user names: its text, or one line about what is wrong with it."""

from __future__ import annotations

import io
import tokenize
from pathlib import Path

from holdfast.errors import InvalidArgument, NotFound


def source_of(path: Path, what: str) -> str:
    """The text of a file, which is `what`: a program, say. It is Python by its grammar, or it is refused here."""
    if path.is_dir():
        raise InvalidArgument(f"{path} is a directory", path=str(path), hint=f"Name the file of {what}.")
    try:
        with path.open("rb") as file:
            data = file.read(_BYTES_MAX + 1)
    except FileNotFoundError:
        raise NotFound(f"There is no file {path}", path=str(path), hint=_near(path, what)) from None
    if len(data) > _BYTES_MAX:
        raise InvalidArgument(
            f"{path} has more than {_BYTES_MAX:,} bytes", path=str(path), hint=f"Name the file of {what}."
        )
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        code = io.IncrementalNewlineDecoder(None, translate=True).decode(data.decode(encoding), final=True)
    except (SyntaxError, UnicodeDecodeError) as error:
        raise InvalidArgument(
            f"{path} is no text: {error}", path=str(path), hint=f"{what.capitalize()} is a text file of Python."
        ) from None
    try:
        compile(code, str(path), "exec", dont_inherit=True, flags=_TOP_LEVEL_AWAIT)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        message = getattr(error, "msg", None) or str(error)
        raise InvalidArgument(
            f"{path}{f', line {line}' if line else ''}: SyntaxError: {message}", path=str(path),
            hint="Nothing was begun.",
        ) from None  # fmt: skip
    return code


_BYTES_MAX = 10 << 20  # no device, and no file that somebody named by mistake, is read to its end
_TOP_LEVEL_AWAIT = 0x2000  # ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, without the import


def _near(path: Path, what: str) -> str:
    from difflib import get_close_matches

    try:
        names = [one.name for one in path.parent.iterdir() if one.suffix == ".py"]
    except OSError:
        return f"Its folder {path.parent} can't be read."
    near = get_close_matches(path.name, names, n=2, cutoff=0.75)
    return f"Did you mean {' or '.join(str(path.parent / name) for name in near)}?" if near else f"Name {what}."
