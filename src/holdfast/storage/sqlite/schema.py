"""The tables of a store file, and what each is for."""

from __future__ import annotations

from typing import Final

APPLICATION_ID: Final = 0x484F4C44  # "HOLD", in the file's header: `file` and we recognise a store before opening it
FORMAT: Final = 1  # PRAGMA user_version; a higher one is refused

AGENT_SHIFT: Final = 32
"""A key is `agent number << 32 | seq`: an agent's rows lie together, in order, without a secondary index."""

SEQ_MASK: Final = (1 << AGENT_SHIFT) - 1

STORE: Final = 0
"""Agent number 0 is the store itself: its history holds the writers' epochs, key changes and tombstones."""

LISTING_SUM: Final = "coalesce(sum(commit_number * 31 + kind * 1009 + (key & 4294967295)), 0)"
"""What the rows of an agent's live checkpoints add up to, as its head says: an entry of the index by user that is
damaged in one place changes it, even where it only moves to another place in the order."""

SCHEMA: Final = """
-- What the store is: format, id, one check value per key.
CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;

CREATE TABLE users (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE);

-- Where each agent's history ends now; the only rows that are written again and again. Sealed. Number 0, the store
-- itself, accounts for all others by the roots of a tree over their MACs.
CREATE TABLE agents (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, user INTEGER NOT NULL, head BLOB NOT NULL
);
CREATE INDEX agents_by_user ON agents (user);

-- The histories: immutable, each sealed with a MAC that continues the one of the record before.
CREATE TABLE records (key INTEGER PRIMARY KEY, body BLOB NOT NULL);

-- What a listing shows of a checkpoint (head), and its state while it is not in a segment yet.
-- A row without head is a deleted checkpoint whose state later ones still build on.
CREATE TABLE checkpoints (
    key INTEGER PRIMARY KEY, user INTEGER NOT NULL, commit_number INTEGER NOT NULL, kind INTEGER NOT NULL,
    head BLOB, state BLOB
);
CREATE INDEX checkpoints_by_user ON checkpoints (user, commit_number, kind) WHERE head IS NOT NULL;

-- From a checkpoint's id to its record; deleted ones keep their position.
CREATE TABLE ids (id BLOB PRIMARY KEY, key INTEGER NOT NULL) WITHOUT ROWID;

-- States of up to 64 consecutive checkpoints, encoded as one unit; the key is the last one's.
CREATE TABLE segments (
    key INTEGER PRIMARY KEY, base INTEGER, versions INTEGER NOT NULL, dead INTEGER NOT NULL, body BLOB NOT NULL
);

-- The first state of a fork builds on a state of another agent.
CREATE TABLE forks (key INTEGER PRIMARY KEY, base INTEGER NOT NULL);
CREATE INDEX forks_by_base ON forks (base);

-- Interpreter snapshots, apart from the records they belong to; `base` is the one a delta was made against. Those of a
-- run, or of all runs of a session, form one line (`run`), in which they are numbered.
CREATE TABLE snapshots (
    key INTEGER PRIMARY KEY, run TEXT NOT NULL, number INTEGER NOT NULL, base INTEGER, body BLOB NOT NULL
);

CREATE TABLE groups (id BLOB NOT NULL, key INTEGER NOT NULL, PRIMARY KEY (id, key)) WITHOUT ROWID;
CREATE INDEX groups_by_key ON groups (key);

-- What was begun and not ended: found by this index, never by a scan.
CREATE TABLE pending (key INTEGER PRIMARY KEY, what TEXT NOT NULL, name TEXT NOT NULL);

-- The runs on the live paths: the key is that of the rlm_start, `ended` the position of the rlm_complete. There is no
-- index by name: what shows that a run is not there is the sum of all of its agent's rows, which lie together.
CREATE TABLE runs (key INTEGER PRIMARY KEY, name TEXT NOT NULL, session TEXT, ended INTEGER);

CREATE TABLE inbox (key INTEGER PRIMARY KEY, body BLOB NOT NULL);
"""


def key_of(agent: int, seq: int) -> int:
    return agent << AGENT_SHIFT | seq


def agent_of(key: int) -> int:
    return key >> AGENT_SHIFT


def seq_of(key: int) -> int:
    return key & SEQ_MASK


def span(agent: int) -> tuple[int, int]:
    """The first and last key that an agent's rows can have."""
    return agent << AGENT_SHIFT, (agent + 1 << AGENT_SHIFT) - 1


def listing_share(key: int, commit_number: int, kind: int) -> int:
    """One row's part of `LISTING_SUM`."""
    return commit_number * 31 + kind * 1009 + seq_of(key)
