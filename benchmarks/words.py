"""Conversations made of words: invented, the same in every run, and about as repetitive as people's."""

from __future__ import annotations

import random
from itertools import accumulate
from typing import Any, Final

_ONSETS: Final = [
    "b", "bl", "br", "c", "ch", "d", "dr", "f", "fl", "g", "gr", "h", "j", "k", "l", "m",
    "n", "p", "pl", "pr", "qu", "r", "s", "sh", "sl", "st", "t", "th", "tr", "v", "w",
]  # fmt: skip
_VOWELS: Final = ["a", "e", "i", "o", "u", "ai", "ea", "ee", "ou"]
_ENDINGS: Final = ["", "", "l", "n", "r", "s", "t", "d", "nd", "ng", "st", "ck"]
_VOCABULARY: Final = 800

Message = dict[str, Any]


def messages(count: int, characters: int = 500, *, seed: int = 1) -> list[Message]:
    """So many messages of exactly so many characters; zlib makes about a third of their JSON."""
    chance = random.Random(seed)
    # Zipf's two laws: frequent words are short, and the n-th is about n times rarer than the first.
    vocabulary = sorted({_word(chance) for _ in range(_VOCABULARY)}, key=len)
    weights = list(accumulate(1 / (rank + 2) for rank in range(len(vocabulary))))
    made = []
    for number in range(count):
        words = chance.choices(vocabulary, cum_weights=weights, k=characters // 2)
        text = " ".join(words)[:characters].capitalize()
        made.append({"role": ("user", "assistant")[number % 2], "content": text})
    return made


def _word(chance: random.Random) -> str:
    syllables = chance.choice((1, 1, 2, 2, 3))
    return "".join(chance.choice(_ONSETS) + chance.choice(_VOWELS) + chance.choice(_ENDINGS) for _ in range(syllables))
