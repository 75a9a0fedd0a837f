"""The expressions of constraints: parsed into trees, checked, and evaluated; never run as code."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, pairwise
from typing import Final, NoReturn, TypeAlias

from plait._support.suggestions import suggest_names

MAX_EXPRESSION_CHARS: Final = 20_000
MAX_DEPTH: Final = 40
"""How deep parentheses, functions and `not` may be nested; trees are walked recursively."""
MAX_NODES: Final = 20_000
"""How many parts a tree may have; `all_different` has one for each pair."""
MAX_DIGITS: Final = 15
"""How many digits a number may have."""

Value: TypeAlias = int | bool | str
"""What a variable may be."""


class ExpressionError(ValueError):
    """An expression has a mistake: where it is, and what is nearest to it."""

    def __init__(self, text: str, at: int, nearest: str = "") -> None:
        super().__init__(text)
        self.at = at
        self.nearest = nearest


@dataclass(frozen=True, slots=True)
class Domain:
    """The values that a variable may have."""

    names: tuple[str, ...] = ()
    """Of an enumeration, in its order."""
    numbers: tuple[int, ...] = ()
    """Of a variable with certain numbers only."""
    low: int = 0
    high: int = 0
    is_truth: bool = False

    def __contains__(self, value: object) -> bool:
        if self.is_truth or isinstance(value, bool):
            return self.is_truth and isinstance(value, bool)
        if self.names:
            return value in self.names
        is_inside = isinstance(value, int) and self.low <= value <= self.high
        return is_inside and (not self.numbers or value in self.numbers)

    def describe(self) -> str:
        """Name the values in a few words."""
        if self.is_truth:
            return "true, false"
        values: Sequence[Value] = self.names or self.numbers
        if not values:
            return f"{self.low} to {self.high}"
        return ", ".join(map(str, values[:12])) + (", …" if len(values) > 12 else "")


@dataclass(frozen=True, slots=True)
class Node:
    """A part of an expression.

    `op` is `number`, `truth`, `value`, `flag` or `variable` for a leaf, else an operator.
    """

    op: str
    args: tuple[Node, ...] = ()
    number: Fraction = Fraction()
    is_true: bool = False
    name: str = ""
    """Of a variable, or the text of a value."""
    names: tuple[str, ...] | None = None
    """The values of an enumeration that it may be; `None` for numbers and truths."""
    at: int = 0
    depth: int = 1

    @property
    def is_truth(self) -> bool:
        """Whether it is true or false; other parts are numbers or values."""
        return self.names is None and self.op in _TRUTHS

    @property
    def is_whole(self) -> bool:
        """Whether it is always an integer."""
        return self.number.denominator == 1 and all(arg.is_whole for arg in self.args)


_COMPARISONS: Final = {"==", "!=", "<", "<=", ">", ">="}
_TRUTHS: Final = _COMPARISONS | {"truth", "flag", "and", "or", "not"}
"""Operators whose result is true or false; `flag` is a variable."""

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?)|(?P<name>[^\W\d]\w*(?:\.\w+)*)"
    r"|(?P<string>\"[^\"]*\"|'[^']*')"
    r"|(?P<sign><=>|<->|==|!=|<>|<=|=<|>=|=>|->|&&|\|\||//|\*\*|[≠≤≥¬∧∨→↔−×·]|[-+*/%()\[\],<>=!&|^:;]))",
)

_SPELLINGS: Final = {
    "==": "=",
    "!=": "≠ <>",
    "<=": "≤ =<",
    ">=": "≥",
    "and": "&& & ∧",
    "or": "|| | ∨",
    "not": "! ¬",
    "implies": "=> -> →",
    "iff": "<=> <-> ↔",
    "-": "−",
    "*": "× ·",
}
"""How else people and models write operators."""
_SYNONYMS: Final = {sign: op for op, signs in _SPELLINGS.items() for sign in signs.split()}
WORDS: Final = {"and", "or", "not", "implies", "iff", "in", "true", "false"}
"""Names that have to be in quotes, as those of functions."""

_POWERS: Final = {"iff": 1, "implies": 2, "or": 3, "and": 4, "in": 6, "not": 6} | {
    **dict.fromkeys(_COMPARISONS, 6),
    **dict.fromkeys("+-", 7),
    **dict.fromkeys(("*", "/", "//", "%"), 8),
}
"""How strongly an operator binds; `not` here is that of `not in`."""
_NOT_POWER, _MINUS_POWER = 5, 9

FUNCTIONS: Final[Mapping[str, str]] = {
    "sum": "sum(a, b, …)",
    "min": "min(a, b, …)",
    "max": "max(a, b, …)",
    "abs": "abs(a)",
    "if": "if(condition, a, b)",
    "count": "count([a, b, …], value) or count(condition, …)",
    "exactly": "exactly(k, condition, …)",
    "at_least": "at_least(k, condition, …)",
    "at_most": "at_most(k, condition, …)",
    "all_different": "all_different(a, b, …)",
    "all_equal": "all_equal(a, b, …)",
    "neighbours_differ": "neighbours_differ(a, b, …)",
    "before": "before(a, b)",
    "after": "after(a, b)",
    "next_to": "next_to(a, b)",
    "right_after": "right_after(a, b)",
    "opposite": "opposite(a, b)",
    "position": "position(a)",
}
"""How each function is called."""

_ARITIES: Final = {"abs": 1, "if": 3, "position": 1} | dict.fromkeys(
    ("before", "after", "next_to", "right_after", "opposite"), 2
)

_Token: TypeAlias = tuple[str, str, int]
"""Its kind, its text, and where it begins."""


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text.rstrip()):
        match = _TOKEN.match(text, at)
        if match is None:
            at += len(text[at:]) - len(text[at:].lstrip())
            raise ExpressionError(f"{text[at]!r} cannot be used here", at, _advice(text[at]))
        kind = str(match.lastgroup)
        token, at = match[kind], match.end()
        if kind == "name" and token.lower() in WORDS:
            kind, token = "sign", token.lower()
        yield kind, _SYNONYMS.get(token, token) if kind == "sign" else token, match.start(kind)


def _advice(sign: str) -> str:
    if sign in ("**", "^"):
        return "a * a"
    return {":": "if(condition, a, b)", '"': 'close it: "name"', "'": "close it: 'name'"}.get(
        sign, "names, numbers, + - * // %, == != < <= > >=, and or not implies, and functions"
    )


class Parser:
    """Reads expressions over variables; `lists` are names for several of them.

    With `circle` the last of so many places is next to the first.
    """

    def __init__(
        self,
        variables: Mapping[str, Domain],
        lists: Mapping[str, Sequence[str]] | None = None,
        *,
        circle: int = 0,
    ) -> None:
        self._circle = circle
        self._variables = variables
        self._lists = lists or {}
        self._values = dict.fromkeys(name for one in variables.values() for name in one.names)

    def truth(self, text: str) -> Node:
        """Read an expression that is true or false.

        Raises:
            ExpressionError: It is malformed.
        """
        node = self._read(text)
        if not node.is_truth:
            raise ExpressionError("this is no condition", node.at, f"{text.strip()[:60]} == …")
        return node

    def number(self, text: str) -> Node:
        """Read an expression that is a number.

        Raises:
            ExpressionError: It is malformed.
        """
        return self._as_number(self._read(text))

    def _read(self, text: str) -> Node:
        if len(text) > MAX_EXPRESSION_CHARS:
            problem = f"an expression has at most {MAX_EXPRESSION_CHARS} characters"
            raise ExpressionError(problem, MAX_EXPRESSION_CHARS, "several constraints")
        self._tokens = [*_tokens(text), ("end", "the end", len(text))]
        self._next = self._depth = self._nodes = 0
        node = self._expression(0)
        kind, token, at = self._tokens[self._next]
        if kind != "end":
            nearest = f"{token!r} as one name in quotes, or an operator before it"
            raise ExpressionError(
                f"{token!r} was not expected", at, _advice(token) if kind == "sign" else nearest
            )
        return node

    def _take(self, sign: str, nearest: str = "") -> None:
        kind, token, at = self._tokens[self._next]
        if (kind, token) != ("sign", sign):
            raise ExpressionError(f"{sign!r} is missing before {token!r}", at, nearest)
        self._next += 1

    def _sign(self) -> str:
        kind, token, _at = self._tokens[self._next]
        return token if kind == "sign" else ""

    def _node(self, op: str, args: Sequence[Node], at: int) -> Node:
        self._nodes += 1 + len(args)
        if self._nodes > MAX_NODES:
            raise ExpressionError(f"it has more than {MAX_NODES} parts", at, "several constraints")
        depth = 1 + max((arg.depth for arg in args), default=0)
        if depth > 3 * MAX_DEPTH:  # a chain of different operators is deep without parentheses
            raise ExpressionError("it is nested too deeply", at, "several constraints")
        return Node(op, (*args,), at=at, depth=depth)

    def _expression(self, power: int) -> Node:
        """Read operators that bind at least as strongly; chains become one flat node."""
        self._depth += 1
        at = self._tokens[self._next][2]
        if self._depth > MAX_DEPTH:
            raise ExpressionError(
                f"it is nested deeper than {MAX_DEPTH}", at, "several constraints"
            )
        node = self._operand()
        while (own := _POWERS.get(sign := self._sign(), -1)) >= max(power, 0):
            at = self._tokens[self._next][2]
            if sign in _COMPARISONS:
                node = self._comparisons(node)
            elif sign in ("in", "not"):
                self._next += 1
                if sign == "not":
                    self._take("in", "a not in [b, c]")
                options = self._list_or_one(self._expression(own + 1))
                found = self._node(
                    "or", [self._compared("==", node, one, at) for one in options], at
                )
                node = found if sign == "in" else self._node("not", [found], at)
            else:
                parts = [node]
                signs: list[str] = []
                while self._sign() == sign or (own == 7 and self._sign() in ("+", "-")):
                    signs.append(self._sign())
                    self._next += 1
                    # `a implies b implies c` is `a implies (b implies c)`.
                    parts.append(self._expression(own if sign == "implies" else own + 1))
                node = self._joined(sign, signs, parts, at)
        self._depth -= 1
        return node

    def _joined(self, sign: str, signs: Sequence[str], parts: list[Node], at: int) -> Node:
        first, *others = parts
        match sign:
            case "and" | "or":
                return self._node(sign, [self._as_truth(part) for part in parts], at)
            case "implies":
                given = self._node("not", [self._as_truth(first)], at)
                return self._node("or", [given, self._as_truth(others[0])], at)
            case "iff":
                pairs = pairwise(self._as_truth(part) for part in parts)
                return self._node("and", [self._node("==", pair, at) for pair in pairs], at)
            case "+" | "-":
                terms = [self._as_number(first)]
                for one, part in zip(signs, others, strict=True):
                    term = self._as_number(part)
                    terms.append(term if one == "+" else self._node("neg", [term], at))
                return self._node("+", terms, at)
            case "*":
                return self._node("*", [self._as_number(part) for part in parts], at)
            case _:
                node = self._as_number(first)
                for part in others:
                    node = self._divided(sign, node, part, at)
                return node

    def _divided(self, sign: str, node: Node, divisor: Node, at: int) -> Node:
        number = divisor.number
        if divisor.op != "number" or number <= 0:
            nearest = "a == b * c in place of a / b == c"
            raise ExpressionError(f"{sign!r} needs a positive number on its right", at, nearest)
        if sign == "/":
            share = Node("number", number=1 / number, at=at)
            return self._node("*", [node, share], at)
        if not (node.is_whole and number.denominator == 1):
            raise ExpressionError(f"{sign!r} is for whole numbers", at, "a // 2")
        return self._node(sign, [node, divisor], at)

    def _comparisons(self, node: Node) -> Node:
        """Read `a < b`, or a chain such as `1 <= a < b`."""
        found: list[Node] = []
        begin = self._tokens[self._next][2]
        while (sign := self._sign()) in _COMPARISONS:
            at = self._tokens[self._next][2]
            self._next += 1
            other = self._expression(_POWERS[sign] + 1)
            found.append(self._compared(sign, node, other, at))
            node = other
        return found[0] if len(found) == 1 else self._node("and", found, begin)

    def _compared(self, sign: str, left: Node, right: Node, at: int) -> Node:
        if left.is_truth and right.is_truth and sign in ("==", "!="):
            return self._node(sign, [left, right], at)
        if left.names is None and right.names is None:
            return self._node(sign, [self._as_number(left), self._as_number(right)], at)
        if left.names is None or right.names is None:
            named = left if left.names else right
            values = ", ".join((named.names or ())[:6])
            raise ExpressionError(
                "a value cannot be compared with a number", at, f"position(…), or one of: {values}"
            )
        # The list of a variable says what a value is compared with.
        lists = [one.names or () for one in (left, right) if one.op == "variable"]
        for one in (left, right):
            if one.op == "value" and lists and one.name not in lists[0]:
                name = one.name
                advice = suggest_names(name, lists[0])
                raise ExpressionError(f"{name!r} is none of its values", one.at, advice)
        if len(lists) == 2 and set(lists[0]).isdisjoint(lists[1]):
            raise ExpressionError("these have no value in common", at, "position(a) == position(b)")
        if sign in ("==", "!="):
            return self._node(sign, [left, right], at)
        if len(set(lists)) != 1:
            problem = f"{sign!r} needs two of the same list of values"
            raise ExpressionError(problem, at, "position(a) < position(b)")
        places = [self._position(one, lists[0]) for one in (left, right)]
        return self._node(sign, places, at)

    def _position(self, node: Node, names: Sequence[str]) -> Node:
        if node.op == "value":
            place = Fraction(names.index(node.name) + 1)
            return Node("number", number=place, at=node.at)
        return self._node("position", [node], node.at)

    def _operand(self) -> Node:
        kind, token, at = self._tokens[self._next]
        self._next += 1
        match kind, token:
            case "number", _:
                if len(token) > MAX_DIGITS:
                    text = f"a number has at most {MAX_DIGITS} digits"
                    raise ExpressionError(text, at, "smaller units")
                return Node("number", number=Fraction(token), at=at)
            case "sign", "(":
                node = self._expression(0)
                self._take(")", "a closing parenthesis")
                return node
            case "sign", "[":
                return Node("list", self._arguments("]"), at=at)
            case "sign", "-":
                return self._node("neg", [self._as_number(self._expression(_MINUS_POWER))], at)
            case "sign", "not":
                return self._node("not", [self._as_truth(self._expression(_NOT_POWER))], at)
            case "sign", "true":
                return Node("truth", is_true=True, at=at)
            case "sign", "false":
                return Node("truth", at=at)
            case (("name" | "string"), _):
                if kind == "name" and self._sign() == "(":
                    return self._function(token, at)
                return self._named(token, at)
            case _:
                problem = f"a name or a number is missing before {token!r}"
                raise ExpressionError(problem, at, _advice(token))

    def _named(self, token: str, at: int) -> Node:
        """Find a variable, a list or a value; in quotes it is first of all a value."""
        name = token.strip("\"'")
        if name in self._variables and not (token != name and name in self._values):
            domain = self._variables[name]
            op = "flag" if domain.is_truth else "variable"
            return Node(op, name=name, names=domain.names or None, at=at)
        if name in self._lists:
            return Node("list", tuple(self._named(one, at) for one in self._lists[name]), at=at)
        if name in self._values:
            return Node("value", name=name, names=(name,), at=at)
        if name.isdigit():
            raise ExpressionError(f"{token} is in quotes, which names are", at, name)
        known = [*self._variables, *self._lists, *self._values]
        raise ExpressionError(f"{name!r} is not known", at, suggest_names(name, known))

    def _arguments(self, end: str) -> tuple[Node, ...]:
        found: list[Node] = []
        while self._sign() != end:
            if found:
                self._take(",", "a, b")
            found.append(self._expression(0))
        self._take(end)
        return (*found,)

    def _list_or_one(self, node: Node) -> tuple[Node, ...]:
        return node.args if node.op == "list" else (node,)

    def _function(self, token: str, at: int) -> Node:
        name = token.lower()
        if name not in FUNCTIONS:
            close = suggest_names(name, FUNCTIONS, most_listed=20)
            raise ExpressionError(f"{token!r} is no function", at, close)
        self._take("(")
        given = self._arguments(")")
        args = [one for arg in given for one in self._list_or_one(arg)]
        fixed = _ARITIES.get(name)
        if len(args) < 1 or (fixed is not None and len(args) != fixed):
            raise ExpressionError(f"{name} has other arguments", at, FUNCTIONS[name])

        def total(conditions: Sequence[Node]) -> Node:
            return self._node("+", [self._as_number(self._as_truth(one)) for one in conditions], at)

        match name:
            case "sum":
                return self._node("+", [self._as_number(arg) for arg in args], at)
            case "min" | "max" | "abs":
                return self._node(name, [self._as_number(arg) for arg in args], at)
            case "if":
                condition, *ways = args
                if not all(way.is_truth for way in ways):
                    ways = [self._as_number(way) for way in ways]
                    return self._node("if", [self._as_truth(condition), *ways], at)
                other = self._node("or", [self._as_truth(condition), ways[1]], at)
                unless = self._node("not", [self._as_truth(condition)], at)
                return self._node("and", [self._node("or", [unless, ways[0]], at), other], at)
            case "count":
                if len(given) == 2 and given[0].op == "list" and given[1].op != "list":
                    *some, value = args
                    return total([self._compared("==", one, value, at) for one in some])
                return total(args)
            case "exactly" | "at_least" | "at_most":
                if len(args) < 2:
                    raise ExpressionError(f"{name} has other arguments", at, FUNCTIONS[name])
                sign = {"exactly": "==", "at_least": ">=", "at_most": "<="}[name]
                return self._node(sign, [total(args[1:]), self._as_number(args[0])], at)
            case "all_different":
                pairs = combinations(args, 2)
                return self._each("!=", pairs, at)
            case "all_equal":
                return self._each("==", pairwise(args), at)
            case "neighbours_differ":
                return self._each("!=", pairwise(args), at)
            case "before":
                return self._compared("<", args[0], args[1], at)
            case "after":
                return self._compared(">", args[0], args[1], at)
            case "next_to" | "right_after" | "opposite":
                return self._neighbours(name, args[0], args[1], at)
            case _:  # position
                if args[0].op != "variable" or args[0].names is None:
                    problem = "position is that of a variable in its list of values"
                    raise ExpressionError(problem, at, FUNCTIONS[name])
                return self._node("position", args, at)

    def _neighbours(self, name: str, one: Node, other: Node, at: int) -> Node:
        """Compare two places, or two values of one list; a circle has no ends."""
        lists = {node.names for node in (one, other) if node.op == "variable" and node.names}
        if len(lists) == 1:
            (names,) = lists
            if one.names and other.names:
                # The comparison says what is wrong with a value.
                self._compared("<", one, other, at)
                one, other = self._position(one, names), self._position(other, names)
        away = [self._as_number(other), self._node("neg", [self._as_number(one)], at)]
        distance = self._node("+", away, at)

        def one_of(*numbers: int) -> Node:
            found: list[Node] = []
            for number in numbers:
                amount = Node("number", number=Fraction(number), at=at)
                found.append(self._node("==", [distance, amount], at))
            return self._node("or", found, at)

        seats = self._circle
        match name:
            case "next_to":
                return one_of(1, -1, seats - 1, 1 - seats) if seats else one_of(1, -1)
            case "right_after":
                return one_of(-1, seats - 1) if seats else one_of(-1)
            case _:
                if not seats or seats % 2:
                    problem = "opposite needs a circle with an even number of places"
                    raise ExpressionError(problem, at, '"circle": true')
                return one_of(seats // 2, -(seats // 2))

    def _each(self, sign: str, pairs: Iterator[tuple[Node, Node]], at: int) -> Node:
        return self._node("and", [self._compared(sign, *pair, at) for pair in pairs], at)

    def _as_truth(self, node: Node) -> Node:
        if not node.is_truth:
            self._refuse(node, "a condition is needed here", "a == b")
        return node

    def _as_number(self, node: Node) -> Node:
        """Return a node as a number; a condition counts 1 if it holds, else 0."""
        if node.op == "list" or node.names is not None:
            self._refuse(node, "a number is needed here", "count([a, b], value), or position(a)")
        if not node.is_truth:
            return node
        one, none = (Node("number", number=Fraction(share), at=node.at) for share in (1, 0))
        return self._node("if", [node, one, none], node.at)

    def _refuse(self, node: Node, problem: str, nearest: str) -> NoReturn:
        raise ExpressionError(problem, node.at, nearest)


Assignment: TypeAlias = Mapping[str, Value]


_COMPARE: Final[Mapping[str, Callable[[Fraction, Fraction], bool]]] = {
    "<": lambda one, two: one < two,
    "<=": lambda one, two: one <= two,
    ">": lambda one, two: one > two,
    ">=": lambda one, two: one >= two,
}


def holds(node: Node, assignment: Assignment) -> bool:
    """Return whether a condition holds."""
    match node.op:
        case "truth":
            return node.is_true
        case "flag":
            return assignment[node.name] is True
        case "and":
            return all(holds(arg, assignment) for arg in node.args)
        case "or":
            return any(holds(arg, assignment) for arg in node.args)
        case "not":
            return not holds(node.args[0], assignment)
        case "==" | "!=":
            left, right = (_value(arg, assignment) for arg in node.args)
            return (left == right) == (node.op == "==")
        case _:
            return _COMPARE[node.op](*(amount(arg, assignment) for arg in node.args))


def amount(node: Node, assignment: Assignment) -> Fraction:
    """Return the value of a number."""
    match node.op:
        case "number":
            return node.number
        case "variable":
            return Fraction(assignment[node.name])
        case "position":
            (one,) = node.args
            return Fraction((one.names or ()).index(str(assignment[one.name])) + 1)
        case "if":
            condition, one, other = node.args
            return amount(one if holds(condition, assignment) else other, assignment)
        case _:
            first, *others = (amount(arg, assignment) for arg in node.args)
            return _calculated(node.op, first, others)


def _value(node: Node, assignment: Assignment) -> Fraction | bool | str:
    if node.is_truth:
        return holds(node, assignment)
    if node.names is None:
        return amount(node, assignment)
    return node.name if node.op == "value" else str(assignment[node.name])


def _calculated(op: str, first: Fraction, others: Sequence[Fraction]) -> Fraction:
    match op:
        case "+":
            return sum(others, first)
        case "*":
            for other in others:
                first *= other
            return first
        case "neg":
            return -first
        case "//":
            return Fraction(first // others[0])
        case "%":
            return first % others[0]
        case "abs":
            return abs(first)
        case "min":
            return min(first, *others) if others else first
        case _:
            return max(first, *others) if others else first


Bounds: TypeAlias = tuple[Fraction, Fraction]


def bounds(node: Node, variables: Mapping[str, Domain]) -> Bounds:
    """Return a lower and an upper bound of a number, whatever the variables are."""
    match node.op:
        case "number":
            return node.number, node.number
        case "variable":
            domain = variables[node.name]
            return Fraction(domain.low), Fraction(domain.high)
        case "position":
            return Fraction(1), Fraction(len(node.args[0].names or ()))
        case _:
            pass
    inside = [bounds(arg, variables) for arg in node.args if not arg.is_truth]
    lows, highs = [low for low, _ in inside], [high for _, high in inside]
    match node.op:
        case "+":
            return sum(lows, Fraction()), sum(highs, Fraction())
        case "*":
            low = high = Fraction(1)
            for one in inside:
                corners = [low * one[0], low * one[1], high * one[0], high * one[1]]
                low, high = min(corners), max(corners)
            return low, high
        case "neg":
            return -highs[0], -lows[0]
        case "//":
            return Fraction(lows[0] // lows[1]), Fraction(highs[0] // lows[1])
        case "%":
            return Fraction(), lows[1] - 1
        case "abs":
            least = max(lows[0], -highs[0], Fraction())
            return least, max(abs(lows[0]), abs(highs[0]))
        case "min":
            return min(lows), min(highs)
        case "max":
            return max(lows), max(highs)
        case _:  # if
            return min(lows), max(highs)
