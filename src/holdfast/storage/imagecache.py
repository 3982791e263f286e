"""The images used last, for the next one to share what it has in common with them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from holdfast.history.image import Image

CACHE_BYTES: Final = 64 << 20
_OVERHEAD_BYTES: Final = 500


class ImageCache:
    """Images by key, within a bound. They share what they have in common, so this counts too much, never too little."""

    def __init__(self, bytes_max: int = CACHE_BYTES) -> None:
        self._images: OrderedDict[Hashable, Image] = OrderedDict()
        self._bytes = 0
        self._bytes_max = bytes_max

    def get(self, key: Hashable) -> Image | None:
        image = self._images.get(key)
        if image is not None:
            self._images.move_to_end(key)
        return image

    def put(self, key: Hashable, image: Image) -> None:
        self.drop(key)
        self._images[key] = image
        self._bytes += image.size + _OVERHEAD_BYTES
        while self._bytes > self._bytes_max and len(self._images) > (1 if self._bytes_max else 0):
            _, old = self._images.popitem(last=False)
            self._bytes -= old.size + _OVERHEAD_BYTES

    def drop(self, key: Hashable) -> None:
        old = self._images.pop(key, None)
        if old is not None:
            self._bytes -= old.size + _OVERHEAD_BYTES

    def clear(self) -> None:
        self._images.clear()
        self._bytes = 0
