"""Storages of three methods, as somebody would write them on an afternoon, keep the contract; so they can join it."""

import json

import pytest

from holdfast.history.checkpoint import Checkpoint
from holdfast.storage.protocol import CheckpointStorage
from holdfast.testing.conformance import CheckpointStorageConformance


class JsonLines(CheckpointStorage):
    """Everything in one list of JSON texts."""

    def __init__(self):
        self.lines = []

    async def save(self, checkpoint):
        self.lines = [line for line in self.lines if json.loads(line)["id"] != checkpoint.id]
        self.lines.append(json.dumps(checkpoint.to_dict()))
        return checkpoint.id

    async def load(self, checkpoint_id):
        found = (Checkpoint.from_dict(json.loads(line)) for line in self.lines)
        return next((checkpoint for checkpoint in found if checkpoint.id == checkpoint_id), None)

    async def list_by_user(self, user_id, limit, offset):
        found = [Checkpoint.from_dict(json.loads(line)) for line in reversed(self.lines)]
        return [checkpoint for checkpoint in found if checkpoint.user_id == user_id][offset : offset + limit]


class Objects(JsonLines):
    """The very objects in a dict, and the optional methods."""

    def __init__(self):
        self.kept = {}

    async def save(self, checkpoint):
        self.kept.pop(checkpoint.id, None)
        self.kept[checkpoint.id] = checkpoint
        return checkpoint.id

    async def load(self, checkpoint_id):
        return self.kept.get(checkpoint_id)

    async def list_by_user(self, user_id, limit, offset):
        return [one for one in reversed(self.kept.values()) if one.user_id == user_id][offset : offset + limit]

    async def list_by_agent(self, agent_id, limit, offset):
        return [one for one in reversed(self.kept.values()) if one.agent_id == agent_id][offset : offset + limit]

    async def delete(self, checkpoint_id):
        return self.kept.pop(checkpoint_id, None) is not None


class TestThreeMethods(CheckpointStorageConformance):
    @pytest.fixture
    def storage(self):
        return JsonLines()


class TestOptionalMethods(CheckpointStorageConformance):
    @pytest.fixture
    def storage(self):
        return Objects()
