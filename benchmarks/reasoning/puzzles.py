"""Generated tasks with one checkable answer each; the same seed makes the same tasks."""

from __future__ import annotations

import ast
import itertools
import operator
import random
import re
from collections.abc import Callable, Iterator, Mapping
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
            partial(pets, level=levels["constraints"]),
            partial(route, level=levels["route"]),
            partial(deduction, level=levels["logic"]),
        )
    )
    return [next(makers)(chance, number) for number in range(count)]


_WRITTEN = {"×": "*", "÷": "/", "\\times": "*", "\\(": "", "$": "", "`": ""}
"""How models write arithmetic, and what it means."""

_MADE = (
    ("9, 15: 9 + 15", "30, 6: 30 - 6", "4, 6: 4 * 6"),
    ("5, 9, 10: 5 + 9 + 10", "3, 7, 3: 3 * 7 + 3", "2, 3, 4: 2 * 3 * 4", "10, 3, 6: 10 * 3 - 6"),
    ("2, 3, 4, 5: 2 * (3 + 4 + 5)", "1, 3, 4, 6: 6 / (1 - 3 / 4)"),
)
"""Examples by level."""


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
    question = _lines(
        "Make 24 from the numbers, each used once, with + - * / and parentheses. "
        "The answer is the expression.",
        *_MADE[level - 1],
        f"{listed}:",
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


_PEOPLE: tuple[str, ...] = ("Ann", "Ben", "Cleo", "Dan")
_PETS: tuple[str, ...] = ("cat", "dog", "fish", "hen")


def pets(chance: random.Random, number: int, level: int) -> Puzzle:
    """Who has which pet, by clues that leave one way: three people, then four."""
    count = (3, 3, 4)[level - 1]
    people, kinds = _PEOPLE[:count], _PETS[:count]
    owned = dict(zip(people, chance.sample(kinds, count), strict=True))
    wanted = chance.choice(kinds)
    owner = next(person for person in people if owned[person] == wanted)
    clues = [(person, pet) for person in people for pet in kinds if person != owner]
    clues = [clue for clue in clues if owned[clue[0]] != clue[1]]
    if level == 1:
        other = chance.choice([person for person in people if person != owner])
        clues.append((other, owned[other]))
    chance.shuffle(clues)
    ways = [dict(zip(people, way, strict=True)) for way in itertools.permutations(kinds)]
    kept: list[str] = []
    for person, pet in clues:
        has = owned[person] == pet
        left = [way for way in ways if (way[person] == pet) == has]
        if len({_owner(way, wanted) for way in ways}) > 1 and len(left) < len(ways):
            kept.append(f"{person} {'has' if has else 'does not have'} the {pet}")
            ways = left
    question = _lines(
        f"{', '.join(people)} have one of these pets each: {', '.join(kinds)}. "
        "The answer is the name.",
        "Ben has the dog. Ann does not have the cat. Who has the cat? Cleo",
        "Ann does not have the fish. Cleo does not have the fish. Who has the fish? Ben",
        f"{'. '.join(kept)}. Who has the {wanted}?",
    )

    def check(answer: str) -> bool:
        return {person for person in people if person in answer} == {owner}

    return Puzzle(f"pets-{level}-{number}", "constraints", question, check)


def _owner(way: Mapping[str, str], pet: str) -> str:
    return next(person for person, owned in way.items() if owned == pet)


def route(chance: random.Random, number: int, level: int) -> Puzzle:
    """The length of the shortest of the ways to a place: two ways, three, three with a crossing."""
    middle = "BCD"[: (2, 3, 3)[level - 1]]
    roads: dict[tuple[str, str], int] = {}
    for place in middle:
        roads |= {("A", place): chance.randint(2, 19), (place, "E"): chance.randint(2, 19)}
    if level == 3:
        roads["B", "C"] = chance.randint(1, 3)
    lengths = dict.fromkeys(f"A{middle}E", 10000)
    lengths["A"] = 0
    for _ in lengths:
        for (a, b), length in roads.items():
            lengths[b] = min(lengths[b], lengths[a] + length)
            lengths[a] = min(lengths[a], lengths[b] + length)
    listed = ", ".join(f"{a}-{b} {length}" for (a, b), length in roads.items())
    question = _lines(
        "How many km is the shortest way from A to E? Roads go both ways. "
        "The answer is the number.",
        "A-B 4, B-E 3, A-C 2, C-E 9: 4 + 3 = 7, 2 + 9 = 11, so 7",
        "A-B 8, B-E 12, A-C 11, C-E 3: 8 + 12 = 20, 11 + 3 = 14, so 14",
        f"{listed}:",
    )

    def check(answer: str) -> bool:
        # The last number: the sums come before it.
        return re.findall(r"\d+", answer)[-1:] == [str(lengths["E"])]

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
    question = _lines(
        "Which one of three words is Zed for certain? The answer is that one word.",
        "Every oak is a ruk. Every tem is a oak. Zed is a oak. sim, tem, ruk? ruk",
        f"{'. '.join(rules)}. Zed is a {chain[0]}. {', '.join(choices)}?",
    )

    def check(answer: str) -> bool:
        return {choice for choice in choices if choice in answer.lower()} == {chain[-1]}

    return Puzzle(f"logic-{level}-{number}", "logic", question, check)


def _lines(*lines: str) -> str:
    """Join what is to be done, examples, and the task: small models follow a pattern."""
    return "\n".join(lines)
