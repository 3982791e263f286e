"""Numbers in as many bytes as they need, and a reader that finds anything else Corrupt."""

from __future__ import annotations

from typing import Final

from holdfast.errors import Corrupt

_SHIFT_MAX: Final = 56  # no number has more than 9 bytes


def write_number(number: int, out: bytearray) -> None:
    """Append a number in as many bytes as it needs, 7 bits in each."""
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


class Reader:
    """Reads numbers and runs of bytes, one after the other."""

    __slots__ = ("data", "position")

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data = data
        self.position = position

    def number(self) -> int:
        """The number at the position."""
        data, position = self.data, self.position
        try:
            number = data[position]
            if number > 0x7F:
                number &= 0x7F
                shift = 7
                while data[position := position + 1] > 0x7F and shift < _SHIFT_MAX:
                    number |= (data[position] & 0x7F) << shift
                    shift += 7
                number |= data[position] << shift
        except IndexError:
            raise Corrupt("The bytes end too early") from None
        self.position = position + 1
        return number

    def take(self, size: int) -> bytes:
        """The next `size` bytes."""
        end = self.position + size
        if end > len(self.data):
            raise Corrupt("The bytes end too early")
        taken = self.data[self.position : end]
        self.position = end
        return taken
