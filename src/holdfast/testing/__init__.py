"""What somebody who writes a storage needs for testing it: the conformance suite. Needs pytest and anyio."""

import pytest

# Otherwise a claim that fails in somebody else's suite would say AssertionError and nothing more.
pytest.register_assert_rewrite(
    "holdfast.testing.checkpoints",
    "holdfast.testing.concurrency",
    "holdfast.testing.histories",
    "holdfast.testing.lifecycles",
    "holdfast.testing.ownership",
    "holdfast.testing.runs",
)
