"""Generated tasks with one checkable answer each; the same seed makes the same tasks."""

from __future__ import annotations

import ast
import itertools
import operator
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

Check = Callable[[str], bool]


@dataclass(frozen=True)
class Puzzle:
    """A question, and the function that says whether an answer is right."""

    key: str
    kind: str
    question: str
    check: Check


def puzzles(count: int, seed: int = 20) -> list[Puzzle]:
    """Return tasks of every kind in turn."""
    chance = random.Random(seed)
    makers = itertools.cycle((game_of_24, order, route, deduction))
    return [next(makers)(chance, number) for number in range(count)]


def game_of_24(chance: random.Random, number: int) -> Puzzle:
    """Four numbers that can make 24."""
    while True:
        cards = sorted(chance.randint(1, 9) for _ in range(4))
        if any(value == 24 for value in _values([Fraction(card) for card in cards])):
            break

    def check(answer: str) -> bool:
        expression = answer.partition("=")[0].replace("×", "*").replace("÷", "/").strip()
        used = sorted(int(digit) for digit in re.findall(r"\d+", expression))
        return used == cards and _evaluated(expression) == 24

    listed = ", ".join(map(str, cards))
    question = (
        f"Use each of the numbers {listed} exactly once, with + - * / and parentheses, to make 24. "
        "The answer is the expression."
    )
    return Puzzle(f"24-{number}", "game of 24", question, check)


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


_NAMES = ("Ann", "Ben", "Cleo", "Dan")


def order(chance: random.Random, number: int) -> Puzzle:
    """People in a row, by clues that leave one order."""
    people = [*_NAMES]
    chance.shuffle(people)
    clues: list[tuple[str, Callable[[tuple[str, ...]], bool]]] = []
    for one, two in itertools.permutations(range(4), 2):
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
    chance.shuffle(clues)
    kept: list[tuple[str, Callable[[tuple[str, ...]], bool]]] = []
    rows = [*itertools.permutations(_NAMES)]
    for clue in clues:
        left = [row for row in rows if clue[1](row)]
        if len(left) < len(rows):
            kept.append(clue)
            rows = left
        if len(rows) == 1:
            break
    right = ", ".join(people)
    question = (
        f"Ann, Ben, Cleo and Dan stand in a row. {'. '.join(text for text, _ in kept)}. "
        "Who stands where? The answer is the four names from left to right, with commas."
    )
    return Puzzle(f"order-{number}", "constraints", question, _same(right))


def route(chance: random.Random, number: int) -> Puzzle:
    """The length of the shortest way through a small town."""
    places = "ABCDEF"
    roads = {
        (a, b): chance.randint(1, 9)
        for a, b in itertools.combinations(places, 2)
        if chance.random() < 0.55 or b == chr(ord(a) + 1)
    }
    lengths = dict.fromkeys(places, 10000)
    lengths["A"] = 0
    for _ in places:
        for (a, b), length in roads.items():
            lengths[b] = min(lengths[b], lengths[a] + length)
            lengths[a] = min(lengths[a], lengths[b] + length)
    listed = ", ".join(f"{a}-{b} {length}" for (a, b), length in roads.items())
    question = (
        f"Roads and their lengths in km: {listed}. Roads go both ways. How long is the shortest "
        "way from A to F? The answer is the number of km."
    )
    return Puzzle(f"route-{number}", "route", question, _same(str(lengths["F"])))


def deduction(chance: random.Random, number: int) -> Puzzle:
    """Whether something follows from rules in made-up words."""
    words = ["bim", "dak", "fol", "gam", "hep", "jor", "kiv"]
    chance.shuffle(words)
    length = chance.randint(3, 5)
    rules = [f"Every {a} is a {b}" for a, b in itertools.pairwise(words[: length + 1])]
    follows = chance.random() < 0.5
    end = words[length]
    if not follows:
        cut = chance.randrange(length)
        rules[cut] = f"Every {words[cut + 1]} is a {words[cut]}"
    chance.shuffle(rules)
    question = (
        f"{'. '.join(rules)}. Zed is a {words[0]}. Does it follow that Zed is a {end}? "
        "The answer is yes or no."
    )
    return Puzzle(f"logic-{number}", "logic", question, _same("yes" if follows else "no"))


def _same(right: str) -> Check:
    wanted = re.findall(r"\w+", right.lower())

    def check(answer: str) -> bool:
        return re.findall(r"\w+", answer.lower())[: len(wanted)] == wanted

    return check
