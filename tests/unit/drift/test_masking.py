"""Masking: what is volatile is the same text however it comes out, and what shows that something moves is not."""

from __future__ import annotations

import random

import pytest

from holdfast.drift.injection import _fill
from holdfast.drift.masking import masked

VOLATILE = """
Connection refused (os error 111), attempt made at <clock>
[<time>] INFO worker-3 heartbeat ok
<epoch>.<number> status=WAITING
pid=<number> state=S
Job <number> is still PENDING
sqs message <uuid> requeued
trace=<hex><hex> no rows
finished in <seconds> seconds, <ms>ms in all
real 0m<seconds>s
ETag: "<hex>"
Date: Thu, 19 Nov 2026 <clock> GMT
Last-Modified: <date> 2026
Thu Nov 19 <clock> UTC 2026
Nov 19 <clock> host app[<number>]: idle
{"ts": <epoch>, "state": "queued", "nonce": "<hex>"}
{"requestId": "<uuid>", "latencyMs": <ms>, "took_ms": <ms>, "ok": false}
<object at 0x<hex>> is not ready
last checked <ms> ms ago, 3 days before
token=<id>; no change
nothing to do (run #<number>)
/tmp/tmp<id>/out.txt: empty
listening on 127.0.0.1:<number>, port <number>
image sha256:<hex><hex><hex><hex> up to date
11/19/2026 <clock> PM waiting
20261119T112233Z idle <epoch>
=== 3 failed, 12 passed in <seconds>s ===
""".strip().splitlines()

MOVING = """
copied <n> of 80 files
<n>% done at <clock>
step <n>/40
{"progress": 0.<n>, "at": "<time>"}
{"done": <n>, "total": 90, "id": "<uuid>"}
<n> files left
epoch <n>, loss 0.4<n>
downloaded <n>.3 MB in <seconds> s
downloaded <n>00000000 bytes
batch <n> finished in <seconds>s
<n> passed, 3 failed in <seconds>s
build step #<n>
<n>,000 rows written
processed <n>123 records
chunk-000<n> ok
HAT<n> has seats
""".strip().splitlines()


@pytest.mark.parametrize("text", VOLATILE)
def test_what_is_volatile_comes_out_the_same(text):
    chance = random.Random(1)
    assert len({masked(_fill(text, chance, {})) for _ in range(30)}) == 1


@pytest.mark.parametrize("text", MOVING)
def test_what_moves_is_seen(text):
    chance = random.Random(1)
    assert len({masked(_fill(text, chance, {"n": str(n)})) for n in range(10, 40)}) == 30


def test_small_numbers_stay_as_they_are():
    assert masked("3 of 10, line 45, page 2") == "3 of 10, line 45, page 2"


def test_white_space_makes_no_difference():
    assert masked(" a\r\n\tb ") == masked("a b") == "a b"


def test_of_a_long_text_the_middle_is_kept_without_its_digits():
    def log(middle, end):
        return f"{'begin ' * 100}{middle}{' end' * 100}{end}"

    assert masked(log("line 12:30", 1)) == masked(log("line 12:31", 1))
    assert masked(log("line one", 1)) != masked(log("line two", 1))
    assert masked(log("", " 3 failed")) != masked(log("", " 2 failed"))


@pytest.mark.parametrize("text", ["", "\ud800", "7" * 5000, "a1" * 5000, "1h" * 5000, "f0" * 300 + "g", "é" * 2000])
def test_any_text_can_be_masked(text):
    assert isinstance(masked(text), str)
