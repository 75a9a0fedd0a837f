"""Generated tasks with one checkable answer each; the same seed makes the same tasks."""

from __future__ import annotations

import ast
import itertools
import operator
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

Check = Callable[[str], bool]


@dataclass(frozen=True)
class Puzzle:
    """A question, and the function that says whether an answer is right."""

    key: str
    kind: str
    question: str
    check: Check


LEVELS: dict[str, int] = {"game of 24": 2, "constraints": 2, "route": 2, "logic": 2}
"""How hard the tasks of a kind are, 1 to 3, so that the local model alone is right in 20-80 %."""


def puzzles(count: int, seed: int = 20, levels: Mapping[str, int] = LEVELS) -> list[Puzzle]:
    """Return tasks of every kind in turn."""
    chance = random.Random(seed)
    makers = itertools.cycle(
        (
            partial(game_of_24, level=levels["game of 24"]),
            partial(order, level=levels["constraints"]),
            partial(route, level=levels["route"]),
            partial(deduction, level=levels["logic"]),
        )
    )
    return [next(makers)(chance, number) for number in range(count)]


_WRITTEN = {"×": "*", "÷": "/", "\\times": "*", "\\(": "", "$": "", "`": ""}
"""How models write arithmetic, and what it means."""

_EXAMPLES = (
    "With 9, 15 it is 9 + 15. With 6, 30 it is 30 - 6. With 4, 6 it is 4 * 6.",
    "With 5, 9, 10 it is 5 + 9 + 10. With 3, 3, 7 it is 3 * 7 + 3. With 2, 3, 4 it is 2 * 3 * 4.",
    "With 2, 3, 4, 5 it is 2 * (3 + 4 + 5). With 1, 3, 4, 6 it is 6 / (1 - 3 / 4).",
)
"""By level."""


def game_of_24(chance: random.Random, number: int, level: int) -> Puzzle:
    """Numbers that can make 24: two of 1 to 30, then three, then four of 1 to 9."""
    most = (30, 12, 9)[level - 1]
    while True:
        cards = sorted(chance.randint(1, most) for _ in range(level + 1))
        if any(value == 24 for value in _values([Fraction(card) for card in cards])):
            break

    def check(answer: str) -> bool:
        expression = answer.partition("=")[0]
        for written, meant in _WRITTEN.items():
            expression = expression.replace(written, meant)
        used = sorted(int(digit) for digit in re.findall(r"\d+", expression))
        return used == cards and _evaluated(expression.strip()) == 24

    listed = ", ".join(map(str, cards))
    question = (
        "Make 24 with + - * / and parentheses. Use each number exactly once, and no other number. "
        f"The answer is the expression. {_EXAMPLES[level - 1]} The numbers: {listed}."
    )
    return Puzzle(f"24-{level}-{number}", "game of 24", question, check)


def _values(numbers: list[Fraction]) -> Iterator[Fraction]:
    if len(numbers) == 1:
        yield numbers[0]
        return
    for left, right in itertools.permutations(range(len(numbers)), 2):
        rest = [n for index, n in enumerate(numbers) if index not in (left, right)]
        one, two = numbers[left], numbers[right]
        for made in (one + two, one - two, one * two, *((one / two,) if two else ())):
            yield from _values([*rest, made])


_OPERATORS = {
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


_NAMES = ("Ann", "Ben", "Cleo", "Dan", "Eve")

Clue = tuple[str, Callable[[tuple[str, ...]], bool]]


def order(chance: random.Random, number: int, level: int) -> Puzzle:
    """People in a row, by clues that leave one order: three of them, four or five."""
    names = _NAMES[: level + 2]
    people = [*names]
    chance.shuffle(people)
    clues = _clues(people)
    chance.shuffle(clues)
    kept: list[Clue] = []
    rows = [*itertools.permutations(names)]
    for clue in clues:
        left = [row for row in rows if clue[1](row)]
        if len(left) < len(rows):
            kept.append(clue)
            rows = left
        if len(rows) == 1:
            break
    question = (
        "People stand in a row. Who stands where? The answer is all the names from left to right, "
        f"with commas. The people: {', '.join(names)}. {'. '.join(text for text, _ in kept)}."
    )

    def check(answer: str) -> bool:
        return re.findall("|".join(names), answer) == people

    return Puzzle(f"order-{level}-{number}", "constraints", question, check)


def _clues(people: Sequence[str]) -> list[Clue]:
    """Return what is true of a row."""
    clues: list[Clue] = []
    for one, two in itertools.permutations(range(len(people)), 2):
        a, b = people[one], people[two]
        if one < two:
            clues.append((f"{a} is left of {b}", lambda row, a=a, b=b: row.index(a) < row.index(b)))
        if abs(one - two) > 1:
            clues.append(
                (
                    f"{a} is not next to {b}",
                    lambda row, a=a, b=b: abs(row.index(a) - row.index(b)) > 1,
                )
            )
    return clues


def route(chance: random.Random, number: int, level: int) -> Puzzle:
    """The length of the shortest way through a town of four, five or six places."""
    places = "ABCDEF"[: level + 3]
    goal = places[-1]
    roads = {
        (a, b): chance.randint(1, 9)
        for a, b in itertools.combinations(places, 2)
        if (a, b) != ("A", goal) and (chance.random() < 0.5 or b == chr(ord(a) + 1))
    }
    lengths = dict.fromkeys(places, 10000)
    lengths["A"] = 0
    for _ in places:
        for (a, b), length in roads.items():
            lengths[b] = min(lengths[b], lengths[a] + length)
            lengths[a] = min(lengths[a], lengths[b] + length)
    listed = ", ".join(f"{a}-{b} {length}" for (a, b), length in roads.items())
    question = (
        "How long is the shortest way? Roads go both ways. The answer is the number of km. "
        f"From A to {goal}. Roads and their lengths in km: {listed}."
    )

    def check(answer: str) -> bool:
        # The last number: some write the way and the sum before it.
        return re.findall(r"\d+", answer)[-1:] == [str(lengths[goal])]

    return Puzzle(f"route-{level}-{number}", "route", question, check)


def deduction(chance: random.Random, number: int, level: int) -> Puzzle:
    """What follows from rules in made-up words, one of three, over two, three or four rules."""
    words = ["bim", "dak", "fol", "gam", "hep", "jor", "kiv", "lum", "nup", "pax"]
    chance.shuffle(words)
    length = level + 1
    chain, others = words[: length + 1], words[length + 1 :]
    rules = [f"Every {a} is a {b}" for a, b in itertools.pairwise(chain)]
    # Both lead away from what Zed is: backwards along a rule, and from another word.
    rules += [f"Every {others[0]} is a {chain[1]}", f"Every {others[1]} is a {others[2]}"]
    chance.shuffle(rules)
    choices = [chain[-1], others[0], others[2]]
    chance.shuffle(choices)
    question = (
        "Which one of three words is Zed for certain? The answer is that one word. "
        f"{'. '.join(rules)}. Zed is a {chain[0]}. The three words: {', '.join(choices)}."
    )

    def check(answer: str) -> bool:
        return {choice for choice in choices if choice in answer.lower()} == {chain[-1]}

    return Puzzle(f"logic-{level}-{number}", "logic", question, check)
