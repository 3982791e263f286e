"""Claims about the signatures of all that can be called."""

from __future__ import annotations

import functools
import typing
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.durable.runs.signature import body_of, definition_of, signature_of

if TYPE_CHECKING:
    from nowhere import Missing


def send(to: str, times: int | None = None, *, odd: Missing = None) -> list[Missing]:
    """Sends."""


class Desk:
    """Where it is sent from."""

    def __init__(self, number: int):
        """Sets it up."""

    def send(self, to: str) -> Desk:
        """Sends from here."""

    def __call__(self, to: str) -> bytes:
        """Sends as well."""

    @classmethod
    def make(cls, to: str): ...

    @staticmethod
    def look(to: str): ...


def annotations(function):
    signature = signature_of(function)
    found = {name: one.annotation for name, one in signature.parameters.items()}
    return found, signature.return_annotation


def test_an_annotation_that_only_type_checkers_can_resolve_does_not_cost_the_others_their_meaning():
    assert annotations(send) == ({"to": str, "times": int | None, "odd": Any}, Any)


def test_what_has_no_annotation_has_none():
    assert annotations(lambda x: x) == ({"x": signature_of(send).empty}, signature_of(send).empty)


def test_annotations_may_name_what_the_enclosing_function_defined():
    class Local: ...

    def tool(one: Local) -> Local:
        return Local()

    assert annotations(tool) == ({"one": Local}, Local)


def test_annotations_that_are_no_types_are_harmless():
    def tool(a, b, c): ...

    tool.__annotations__ = {"a": "1 / 0", "b": "no Python", "c": 3}
    found, _ = annotations(tool)
    assert found == {"a": Any, "b": Any, "c": 3}


@pytest.mark.parametrize(
    ("function", "parameters", "doc"),
    [
        (Desk(1).send, {"to": str}, "Sends from here."),
        (Desk(1), {"to": str}, "Sends as well."),
        (Desk, {"number": int}, "Sets it up."),
        (Desk.make, {"to": str}, None),
        (Desk.look, {"to": str}, None),
        (functools.partial(send, "ada"), {"times": int | None, "odd": Any}, "Sends."),
        (functools.partial(functools.partial(Desk(1).send)), {"to": str}, "Sends from here."),
        (functools.wraps(send)(lambda *args, **kwargs: None), {"to": str, "times": int | None, "odd": Any}, "Sends."),
    ],
)
def test_every_sort_of_callable_has_its_signature_and_its_docstring(function, parameters, doc):
    assert annotations(function)[0] == parameters
    assert definition_of(function).__doc__ == doc


def test_the_body_of_a_wrapper_is_the_wrapper_and_its_definition_what_it_wraps():
    @functools.wraps(send)
    def wrapper(*args): ...

    assert body_of(functools.partial(wrapper)) is wrapper
    assert definition_of(functools.partial(wrapper)) is send


def test_what_python_knows_no_signature_of_has_none():
    with pytest.raises(ValueError, match="no signature"):
        signature_of(max)


def test_annotated_types_keep_what_they_are_annotated_with():
    def tool(a: typing.Annotated[int, "positive"]): ...

    assert annotations(tool)[0] == {"a": typing.Annotated[int, "positive"]}
