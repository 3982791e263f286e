"""Conditions, the language of `when`: comparisons of references and literals, joined by `and`, `or` and `not`.

    condition  = and-part { "or" and-part }
    and-part   = not-part { "and" not-part }
    not-part   = "not" not-part | comparison
    comparison = operand [ ("==" | "!=" | "<" | "<=" | ">" | ">=" | "in" | "not" "in") operand ]
    operand    = "${…}" | text in quotes | number | "true" | "false" | "null" | "(" condition ")"
               | "[" [ operand { "," operand } ] "]"

Nothing is called, and nothing is looked up but references. An operand alone holds unless it is null, false, 0, "", []
or {}. `==` and `!=` compare any values, without conversion (1 == 1.0, but 1 != "1" and 1 != true). `<` and its like
order two numbers or two texts. `in` looks for an element of a list, a key of an object, or a part of a text. Anything
else is an error of the step. `and` and `or` look at their right side only when the left one does not decide.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from holdfast.agents.workflow.references import Reference, Values, parse, resolved
from holdfast.errors import InvalidArgument

LENGTH_MAX: Final = 1_000
DEPTH_MAX: Final = 20

_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<reference>\$\{[^{}]*\})
    |(?P<number>-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)(?![\w.])
    |(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    |(?P<sign>==|!=|<=|>=|<|>|[\[\](),])
    |(?P<word>[A-Za-z_]\w*))""",
    re.VERBOSE,
)
_ESCAPED: Final = {"n": "\n", "t": "\t", "\\": "\\", "'": "'", '"': '"'}
_LITERALS: Final = {"true": True, "false": False, "null": None}
_ORDER: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip

Test = Callable[[Values], Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Condition:
    """A condition that was understood."""

    text: str
    references: tuple[Reference, ...]
    test: Test

    def holds(self, values: Values) -> bool:
        """Whether it is true now. `InvalidArgument` when its values can't be compared or are not there."""
        return bool(self.test(values))


def condition(text: str) -> Condition:
    """The condition that a text states. A `ValueError` says what is wrong with it, and at which character."""
    if len(text) > LENGTH_MAX:
        raise ValueError(f"a condition has at most {LENGTH_MAX:,} characters")
    reader = _Reader(list(_tokens(text)))
    test = reader.either(0)
    reader.expect("the end", not reader.peek().kind)
    return Condition(text=text, references=tuple(reader.references), test=test)


class _Token(NamedTuple):
    kind: str  # reference, number, text, sign, word; "" at the end
    text: str
    at: int


def _tokens(text: str) -> Iterator[_Token]:
    at, end = 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            at += len(text[at:]) - len(text[at:].lstrip())
            raise ValueError(f"at character {at + 1}: {text[at : at + 10]!r} is not understood")
        yield _Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup))
        at = match.end()
    yield _Token("", "the end", end)


class _Reader:
    """Reads tokens by recursive descent into a test."""

    def __init__(self, tokens: list[_Token]) -> None:
        self.tokens = tokens
        self.place = 0
        self.references: list[Reference] = []

    def peek(self) -> _Token:
        return self.tokens[self.place]

    def took(self, *texts: str) -> str:
        """Takes the next sign or word if it is one of these; returns it, or nothing."""
        token = self.peek()
        if token.kind in ("sign", "word") and token.text in texts:
            self.place += 1
            return token.text
        return ""

    def expect(self, what: str, found: object) -> None:
        if not found:
            token = self.peek()
            raise ValueError(f"at character {token.at + 1}: {what} is expected, not {token.text}")

    def either(self, depth: int) -> Test:
        if depth > DEPTH_MAX:
            raise ValueError(f"a condition is nested at most {DEPTH_MAX} deep")
        tests = [self.both(depth)]
        while self.took("or"):
            tests.append(self.both(depth))
        return tests[0] if len(tests) == 1 else lambda values: any(bool(test(values)) for test in tests)

    def both(self, depth: int) -> Test:
        tests = [self.negated(depth)]
        while self.took("and"):
            tests.append(self.negated(depth))
        return tests[0] if len(tests) == 1 else lambda values: all(bool(test(values)) for test in tests)

    def negated(self, depth: int) -> Test:
        times = 0
        while self.took("not"):
            times += 1
        test = self.comparison(depth)
        return test if not times else lambda values: bool(test(values)) is (times % 2 == 0)

    def comparison(self, depth: int) -> Test:
        left = self.operand(depth)
        sign = self.took("==", "!=", *_ORDER, "in", "not")
        if not sign:
            return left
        if sign == "not":
            self.expect("in", self.took("in"))
            sign = "not in"
        right = self.operand(depth)
        return lambda values: _compared(sign, left(values), right(values))

    def operand(self, depth: int) -> Test:
        if self.took("("):
            test = self.either(depth + 1)
            self.expect(")", self.took(")"))
            return test
        if self.took("["):
            return self.listed(depth + 1)
        token = self.peek()
        self.expect("a value", token.kind in ("reference", "number", "text") or token.text in _LITERALS)
        self.place += 1
        if token.kind == "reference":
            reference = parse(token.text[2:-1].strip())
            self.references.append(reference)
            return lambda values: resolved(reference, values)
        value = _literal(token)
        return lambda _: value

    def listed(self, depth: int) -> Test:
        if depth > DEPTH_MAX:
            raise ValueError(f"a condition is nested at most {DEPTH_MAX} deep")
        tests: list[Test] = []
        while not self.took("]"):
            if tests:
                self.expect(", or ]", self.took(","))
            tests.append(self.operand(depth))
        return lambda values: [test(values) for test in tests]


def _literal(token: _Token) -> Any:
    if token.kind == "word":
        return _LITERALS[token.text]
    if token.kind == "number":
        return int(token.text) if token.text.lstrip("-").isdigit() else float(token.text)

    def unescaped(match: re.Match[str]) -> str:
        if match[1] not in _ESCAPED:
            raise ValueError(f"at character {token.at + 1}: \\{match[1]} is no escape; there is \\n \\t \\\\ \\' \\\"")
        return _ESCAPED[match[1]]

    return re.sub(r"\\(.)", unescaped, token.text[1:-1], flags=re.DOTALL)


def _compared(sign: str, left: Any, right: Any) -> bool:
    if sign in ("==", "!="):
        return _same(left, right) is (sign == "==")
    if sign in _ORDER:
        if (_is_number(left) and _is_number(right)) or (isinstance(left, str) and isinstance(right, str)):
            return _ORDER[sign](left, right)
        raise InvalidArgument(f"{_kind(left)} {sign} {_kind(right)}: only two numbers or two texts have an order")
    return _contains(right, left) is (sign == "in")


def _contains(whole: Any, part: Any) -> bool:
    if isinstance(whole, str) and isinstance(part, str):
        return part in whole
    if isinstance(whole, Mapping):
        return any(_same(part, key) for key in whole)
    if isinstance(whole, list | tuple):
        return any(_same(part, element) for element in whole)
    raise InvalidArgument(f"{_kind(part)} in {_kind(whole)}: there must be a list, an object or a text on the right")


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _kind(value: Any) -> str:
    """What a value is, in a word: the value itself may be a secret."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else "a truth value"
    kinds: tuple[tuple[Any, str], ...] = (
        (int | float, "a number"), (str, "a text"), (list | tuple, "a list"), (Mapping, "an object")
    )  # fmt: skip
    return next((name for kind, name in kinds if isinstance(value, kind)), f"a {type(value).__name__}")
