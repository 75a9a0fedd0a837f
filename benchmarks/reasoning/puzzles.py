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


LEVELS: dict[str, int] = {"game of 24": 1, "constraints": 2, "route": 2, "logic": 2}
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
    """The shortest way to a place, over one of two others, one of three, or one of four."""
    middle = "BCDF"[: level + 1]
    while True:
        roads = {place: (chance.randint(2, 19), chance.randint(2, 19)) for place in middle}
        ranked = sorted(middle, key=lambda place: sum(roads[place]))
        if sum(roads[ranked[0]]) < sum(roads[ranked[1]]):
            break
    listed = ". ".join(
        f"Over {place} it is {one} + {two} km" for place, (one, two) in roads.items()
    )
    question = _lines(
        "Over which place is the way shortest? The answer is the letter of the place.",
        "Over B it is 4 + 3 km. Over C it is 2 + 9 km. Over D it is 8 + 8 km. Which? B",
        "Over B it is 8 + 12 km. Over C it is 9 + 9 km. Over D it is 11 + 3 km. Which? D",
        "Over B it is 15 + 4 km. Over C it is 2 + 6 km. Over D it is 5 + 5 km. Which? C",
        f"{listed}. Which?",
    )

    def check(answer: str) -> bool:
        # The last letter: the sums come before it.
        return re.findall(r"\b[BCDF]\b", answer)[-1:] == [ranked[0]]

    return Puzzle(f"route-{level}-{number}", "route", question, check)


def deduction(chance: random.Random, number: int, level: int) -> Puzzle:
    """What follows from rules in made-up words, one of two, over two, three or four rules."""
    words = ["bim", "dak", "fol", "gam", "hep", "jor", "kiv", "lum", "nup", "pax"]
    chance.shuffle(words)
    length = level + 1
    chain, others = words[: length + 1], words[length + 1 :]
    rules = [f"Every {a} is a {b}" for a, b in itertools.pairwise(chain)]
    # It leads away from what Zed is: backwards along a rule.
    rules.append(f"Every {others[0]} is a {chain[1]}")
    chance.shuffle(rules)
    choices = [chain[-1], others[0]]
    chance.shuffle(choices)
    question = _lines(
        "What is Zed for certain? The answer is one word.",
        "Every cat is a pet. Every dog is a pet. Every pet is a friend. Zed is a cat. "
        "Is Zed a friend or a dog? friend",
        "Every car is a machine. Every toy is a gift. Every gift is a thing. Zed is a toy. "
        "Is Zed a car or a thing? thing",
        f"{'. '.join(rules)}. Zed is a {chain[0]}. Is Zed a {' or a '.join(choices)}?",
    )

    def check(answer: str) -> bool:
        return {choice for choice in choices if choice in answer.lower()} == {chain[-1]}

    return Puzzle(f"logic-{level}-{number}", "logic", question, check)


def _lines(*lines: str) -> str:
    """Join what is to be done, examples, and the task: small models follow a pattern."""
    return "\n".join(lines)
