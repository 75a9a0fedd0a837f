"""Generated tasks with one checkable answer each; the same seed makes the same tasks."""

from __future__ import annotations

import ast
import itertools
import json
import operator
import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

Check = Callable[[Mapping[str, Any]], bool]
"""Says whether an answer is right."""


@dataclass(frozen=True)
class Puzzle:
    """A question, the fields of its answer, and how that is checked."""

    key: str
    """Its kind, level and number."""
    question: str
    fields: Mapping[str, Any]
    """The schemas of the answer's fields, by name."""
    check: Check


LEVELS: dict[str, int] = {"game of 24": 2, "constraints": 1, "route": 2, "logic": 2}
"""The kinds of tasks, and the levels that fit the local model; others are found by calibration."""

MOST_LEVEL = 4
"""The hardest level of every kind; the easiest is 1."""


def puzzles(kind: str, count: int, *, seed: int, level: int) -> list[Puzzle]:
    """Return tasks of a kind, none of them twice."""
    make = {"game of 24": game_of_24, "constraints": pets, "route": route, "logic": deduction}[kind]
    chance = random.Random(f"{kind} {level} {seed}")
    made: dict[str, Puzzle] = {}
    for number in range(count):
        while (puzzle := make(chance, number, level)).question in made:
            pass
        made[puzzle.question] = puzzle
    return [*made.values()]


_WRITTEN = {"−": "-", "×": "*", "÷": "/", "\\times": "*", "\\(": "", "$": "", "`": ""}
"""How models write arithmetic, and what it means."""

_PAIR = ("9, 15", "15 * 9 = 135, no. 15 - 9 = 6, no. 15 + 9 = 24, yes. So: 15 + 9.", "15 + 9")
_MADE = (
    _PAIR,
    _PAIR,
    ("3, 3, 7", "3 + 3 + 7 = 13, no. 3 * 7 + 3 = 24, yes. So: 3 * 7 + 3.", "3 * 7 + 3"),
    (
        "2, 3, 4, 5",
        "2 + 3 + 4 + 5 = 14, no. 2 * (3 + 4 + 5) = 24, yes. So: 2 * (3 + 4 + 5).",
        "2 * (3 + 4 + 5)",
    ),
)
"""An example by level: numbers, steps, answer."""


def game_of_24(chance: random.Random, number: int, level: int) -> Puzzle:
    """Numbers that can make 24: two up to 24, two up to 36, three up to 12, four up to 9."""
    count, most = ((2, 24), (2, 36), (3, 12), (4, 9))[level - 1]
    while True:
        cards = sorted(chance.randint(1, most) for _ in range(count))
        if any(value == 24 for value in _values([Fraction(card) for card in cards])):
            break

    def check(answer: Mapping[str, Any]) -> bool:
        expression = str(answer.get("expression")).partition("=")[0]
        for written, meant in _WRITTEN.items():
            expression = expression.replace(written, meant)
        used = sorted(int(digit) for digit in re.findall(r"\d+", expression))
        return used == cards and _evaluated(expression.strip()) == 24

    numbers, steps, made = _MADE[level - 1]
    question = _question(
        "Make 24 from the numbers, each used once, with + - * / and parentheses.",
        numbers,
        {"steps": steps, "expression": made},
        ", ".join(map(str, cards)),
    )
    fields = {"expression": {"type": "string", "maxLength": 40}}
    return Puzzle(f"24-{level}-{number}", question, fields, check)


def _values(numbers: list[Fraction]) -> Iterator[Fraction]:
    if len(numbers) == 1:
        yield numbers[0]
        return
    for left, right in itertools.permutations(range(len(numbers)), 2):
        rest = [n for index, n in enumerate(numbers) if index not in (left, right)]
        one, two = numbers[left], numbers[right]
        for made in (one + two, one - two, one * two, *((one / two,) if two else ())):
            yield from _values([*rest, made])


_OPERATORS: Mapping[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def _evaluated(expression: str) -> Fraction | None:
    def value(node: ast.expr) -> Fraction:
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return Fraction(node.value)
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](value(node.left), value(node.right))
        raise ValueError

    try:
        return value(ast.parse(expression, mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError):
        return None


_PEOPLE: tuple[str, ...] = ("Ann", "Ben", "Cleo", "Dan")
_PETS: tuple[str, ...] = ("cat", "dog", "fish", "hen")


def pets(chance: random.Random, number: int, level: int) -> Puzzle:
    """Who has which pet, by clues that leave one way.

    Three people, with what one has first, then later, then not at all; then four people.
    """
    count = 4 if level == 4 else 3
    people, kinds = _PEOPLE[:count], _PETS[:count]
    clue, example = _OWNED[count - 3]
    while True:
        owned = dict(zip(people, chance.sample(kinds, count), strict=True))
        if any(example[person] != pet for person, pet in owned.items()):
            break
    clues = [(person, pet) for person in people for pet in kinds if owned[person] != pet]
    chance.shuffle(clues)
    if level != 3:
        first = 0 if level == 1 else chance.randrange(2)
        clues.insert(first, chance.choice([*owned.items()]))
    ways = [dict(zip(people, way, strict=True)) for way in itertools.permutations(kinds)]
    kept: list[str] = []
    for person, pet in clues:
        has = owned[person] == pet
        left = [way for way in ways if (way[person] == pet) == has]
        if len(left) < len(ways):
            kept.append(f"{person} {'has' if has else 'does not have'} the {pet}.")
            ways = left
    question = _question(
        f"{', '.join(people)} have one of these pets each: {', '.join(kinds)}. Who has which?",
        clue,
        example,
        " ".join(kept),
    )
    fields = {person: {"type": "string", "enum": [*kinds]} for person in people}

    def check(answer: Mapping[str, Any]) -> bool:
        return all(answer.get(person) == pet for person, pet in owned.items())

    return Puzzle(f"pets-{level}-{number}", question, fields, check)


_OWNED: tuple[tuple[str, dict[str, str]], ...] = (
    (
        "Ben has the dog. Ann does not have the cat.",
        {
            "steps": "Ben: dog. Ann: not cat, and dog is taken, so fish. Cleo: cat is left.",
            "Ann": "fish",
            "Ben": "dog",
            "Cleo": "cat",
        },
    ),
    (
        "Ben has the dog. Ann has the fish. Dan does not have the cat.",
        {
            "steps": "Ben: dog. Ann: fish. Dan: not cat, so hen. Cleo: cat is left.",
            "Ann": "fish",
            "Ben": "dog",
            "Cleo": "cat",
            "Dan": "hen",
        },
    ),
)
"""An example for three people, and one for four."""


def route(chance: random.Random, number: int, level: int) -> Puzzle:
    """The length of the shortest way: one of two to four, of two to four parts each."""
    count, parts = ((2, 2), (3, 2), (4, 3), (4, 4))[level - 1]
    middle = "BCDF"[:count]
    while True:
        roads = {place: [chance.randint(2, 29) for _ in range(parts)] for place in middle}
        ranked = sorted(sum(legs) for legs in roads.values())
        # Never the answer of the example.
        if ranked[0] < ranked[1] and ranked[0] != 14:
            break
    listed = " ".join(
        f"Over {place} it is {' + '.join(map(str, legs))} km." for place, legs in roads.items()
    )
    question = _question(
        "How many km has the shortest way?",
        "Over B it is 8 + 12 km. Over C it is 9 + 9 km. Over D it is 11 + 3 km.",
        {"steps": "B: 8 + 12 = 20. C: 9 + 9 = 18. D: 11 + 3 = 14. The least is 14.", "km": 14},
        listed,
    )

    def check(answer: Mapping[str, Any]) -> bool:
        return answer.get("km") == ranked[0]

    return Puzzle(f"route-{level}-{number}", question, {"km": {"type": "integer"}}, check)


def deduction(chance: random.Random, number: int, level: int) -> Puzzle:
    """What follows from rules in made-up words, one of four, over two to five rules."""
    words = ["bim", "dak", "fol", "gam", "hep", "jor", "kiv", "lum", "nup", "pax"]
    chance.shuffle(words)
    length = level + 1
    chain, others = words[: length + 1], words[length + 1 :]
    rules = [f"Every {a} is a {b}." for a, b in itertools.pairwise(chain)]
    # These lead away from what Zed is: backwards along a rule, and along another line.
    rules.append(f"Every {others[0]} is a {chain[1]}.")
    rules.append(f"Every {others[0]} is a {others[1]}.")
    rules.append(f"Every {others[1]} is a {others[2]}.")
    chance.shuffle(rules)
    choices = [chain[-1], *others[:3]]
    chance.shuffle(choices)
    question = _question(
        "What is Zed for certain? One of the four is right.",
        "Every toy is a gift. Every cat is a pet. Every dog is a pet. Every pet is a friend. "
        "Zed is a cat. Is Zed a toy, a dog, a friend or a gift?",
        {"steps": "Zed is a cat. Every cat is a pet. Every pet is a friend.", "Zed": "friend"},
        f"{' '.join(rules)} Zed is a {chain[0]}. "
        f"Is Zed a {', a '.join(choices[:3])} or a {choices[3]}?",
    )

    def check(answer: Mapping[str, Any]) -> bool:
        return answer.get("Zed") == chain[-1]

    fields = {"Zed": {"type": "string", "enum": choices}}
    return Puzzle(f"logic-{level}-{number}", question, fields, check)


def _question(to_do: str, example: str, answer: Mapping[str, Any], task: str) -> str:
    """Join what is to be done, an example and the task: small models follow a pattern."""
    return f"{to_do}\n\nExample: {example}\n{json.dumps(answer)}\n\nTask: {task}"
