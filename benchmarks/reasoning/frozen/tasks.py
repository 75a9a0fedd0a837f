"""Makes and checks tasks of six families; a checker uses the question, never a key.

Four families have a shape for which the solver is meant (`puzzle`, `route`, `rota`, `rules`); for
`twenty_four` and `jugs` no form will be made.
"""

from __future__ import annotations

import ast
import itertools
import json
import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple, cast

from benchmarks.reasoning.frozen import wording_a, wording_b

Data = dict[str, Any]

SEED = 370
"""The seed of the frozen tasks; prompts are tuned on seeds from 1 to 99."""
TASKS_PER_FAMILY = 20
"""Ten of each level, of which five have each wording."""

FOLDER = Path(__file__).parent
NAMES = ("Ann", "Ben", "Cleo", "Dan", "Eve", "Finn")
TOWNS = ("Ash", "Bree", "Cove", "Dale", "Elm", "Fen", "Glen", "Holm")
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
DRINKS, PETS = ("tea", "milk", "beer", "cola"), ("cat", "dog", "fox", "owl")
WORDS = (
    *("blick", "dax", "fep", "gorp", "lunt", "mip", "noss", "plim"),
    *("quem", "rask", "sorp", "tiv", "vosk", "wug", "zand", "yorb"),
)


def _checked(names: Sequence[str], answer: Any) -> bool:
    """Return whether an answer is a list of exactly these names in any order."""
    if not isinstance(answer, list):
        return False
    return sorted(map(str, cast("list[object]", answer))) == sorted(names)


# --- twenty_four: an expression of all numbers that is 24


def make_twenty_four(draw: random.Random, level: int) -> Data:
    while True:
        numbers = sorted(draw.randint(1, 13) for _ in range(level + 2))
        if next(answers_twenty_four({"numbers": numbers}), None) is not None:
            return {"numbers": numbers}


def check_twenty_four(data: Data, answer: Any) -> bool:
    if not isinstance(answer, str) or len(answer) > 200:
        return False
    used: list[int] = []

    def value(node: ast.AST) -> Fraction:
        match node:
            case ast.Expression():
                return value(node.body)
            case ast.Constant(value=int() as number) if not isinstance(number, bool):
                used.append(number)
                return Fraction(number)
            case ast.BinOp(left=left, op=op, right=right):
                one, two = value(left), value(right)
                match op:
                    case ast.Add():
                        return one + two
                    case ast.Sub():
                        return one - two
                    case ast.Mult():
                        return one * two
                    case ast.Div():
                        return one / two
                    case _:
                        pass
            case _:
                pass
        raise ValueError

    try:
        total = value(ast.parse(answer.partition("=")[0].strip(), mode="eval"))
    except (ValueError, SyntaxError, ZeroDivisionError, RecursionError, MemoryError):
        return False
    return total == 24 and sorted(used) == sorted(data["numbers"])


def answers_twenty_four(data: Data) -> Iterator[str]:
    def join(terms: list[tuple[Fraction, str]]) -> Iterator[str]:
        if len(terms) == 1:
            if terms[0][0] == 24:
                yield terms[0][1]
            return
        for i, j in itertools.permutations(range(len(terms)), 2):
            rest = [term for k, term in enumerate(terms) if k not in (i, j)]
            (a, left), (b, right) = terms[i], terms[j]
            results = [(a - b, "-")] + ([(a + b, "+"), (a * b, "*")] if i < j else [])
            results += [(a / b, "/")] if b else []
            for result, sign in results:
                yield from join([*rest, (result, f"({left} {sign} {right})")])

    yield from join([(Fraction(number), str(number)) for number in data["numbers"]])


# --- puzzle: who has what (level 1), or who sits where at a round table (level 2)


def _holds(clue: Sequence[Any], answer: Any) -> bool:
    kind, *rest = clue
    if kind in ("has", "has_not"):
        person, item = rest
        return (item in answer[person]) == (kind == "has")
    if kind in ("together", "apart"):
        one, two = rest
        same = any(one in items and two in items for items in answer.values())
        return same == (kind == "together")
    one, two = answer.index(rest[0]), answer.index(rest[1])
    gap = (one - two) % len(answer)
    near, opposite, after = gap in (1, len(answer) - 1), gap * 2 == len(answer), gap == 1
    return {"next": near, "not_next": not near, "opposite": opposite, "left": after}[kind]


def _grids() -> Iterator[dict[str, list[str]]]:
    for drinks in itertools.permutations(DRINKS):
        for pets in itertools.permutations(PETS):
            yield {n: [d, p] for n, d, p in zip(NAMES, drinks, pets, strict=False)}


def _tables() -> Iterator[list[str]]:
    for rest in itertools.permutations(NAMES[1:]):
        yield [NAMES[0], *rest]


def make_puzzle(draw: random.Random, level: int) -> Data:
    every: list[Any] = [*(_grids() if level == 1 else _tables())]
    hidden = draw.choice(every)
    if level == 1:
        clues = [["has_not", n, item] for n in NAMES[:4] for item in (*DRINKS, *PETS)]
        clues += [["has", n, item] for n in NAMES[:1] for item in (*DRINKS, *PETS)]
        clues += [[k, d, p] for k in ("together", "apart") for d in DRINKS for p in PETS]
    else:
        kinds = ("next", "not_next", "opposite", "left")
        clues = [[k, a, b] for k in kinds for a, b in itertools.permutations(NAMES, 2)]
    clues = [clue for clue in clues if _holds(clue, hidden)]
    draw.shuffle(clues)
    needed = [*clues]
    for clue in clues:
        fewer = [one for one in needed if one is not clue]
        if sum(all(_holds(one, other) for one in fewer) for other in every) == 1:
            needed = fewer
    draw.shuffle(needed)
    return {"level": level, "clues": needed}


def check_puzzle(data: Data, answer: Any) -> bool:
    if data["level"] == 2:
        if not _checked(NAMES, answer) or answer[0] != NAMES[0]:
            return False
        return all(_holds(clue, answer) for clue in data["clues"])
    if not isinstance(answer, dict) or sorted(cast("Data", answer)) != sorted(NAMES[:4]):
        return False
    owned: list[Any] = [*cast("Data", answer).values()]
    items = [item for has in owned for item in has]
    pairs = all(len({*has} & {*DRINKS}) == len({*has} & {*PETS}) == 1 for has in owned)
    return (
        _checked((*DRINKS, *PETS), items)
        and pairs
        and all(_holds(clue, answer) for clue in data["clues"])
    )


def answers_puzzle(data: Data) -> Iterator[Any]:
    yield from _grids() if data["level"] == 1 else _tables()


# --- route: the shortest way between two of eight towns (level 2: through a third one)


def make_route(draw: random.Random, level: int) -> Data:
    while True:
        pairs = draw.sample([*itertools.combinations(TOWNS, 2)], 13)
        roads = [[a, b, draw.randint(2, 19)] for a, b in pairs]
        start, end, via = draw.sample(TOWNS, 3)
        data: Data = {"roads": roads, "from": start, "to": end, "via": via if level == 2 else None}
        ways = sorted(len(way) for way in answers_route(data))
        if len(ways) >= 6 and len(min(answers_route(data), key=lambda w: _length(data, w))) >= 4:
            return data


def _length(data: Data, way: Sequence[str]) -> int:
    roads = {frozenset((a, b)): far for a, b, far in data["roads"]}
    return sum(roads[frozenset(pair)] for pair in itertools.pairwise(way))


def check_route(data: Data, answer: Any) -> bool:
    ways = [*answers_route(data)]
    return answer in ways and _length(data, answer) == min(_length(data, way) for way in ways)


def answers_route(data: Data) -> Iterator[list[str]]:
    def grow(way: list[str]) -> Iterator[list[str]]:
        if way[-1] == data["to"]:
            if data["via"] is None or data["via"] in way:
                yield way
            return
        for a, b, _ in data["roads"]:
            for here, there in ((a, b), (b, a)):
                if here == way[-1] and there not in way:
                    yield from grow([*way, there])

    yield from grow([data["from"]])


# --- rota: one of four people a day, by who can, how often, and who is trained


def make_rota(draw: random.Random, level: int) -> Data:
    days = DAYS[: 5 if level == 1 else 7]
    staff = NAMES[:4]
    while True:
        away = {n: sorted(draw.sample(days, 2 if level == 1 else 3), key=days.index) for n in staff}
        data: Data = {
            "days": [*days],
            "staff": [*staff],
            "away": away,
            "most": 2,
            "trained": sorted(draw.sample(staff, 2)),
            "busy": sorted(draw.sample(days, 2), key=days.index),
        }
        if 1 <= sum(check_rota(data, one) for one in answers_rota(data)) <= 3:
            return data


def check_rota(data: Data, answer: Any) -> bool:
    if not isinstance(answer, dict) or sorted(cast("Data", answer)) != sorted(data["days"]):
        return False
    row: list[Any] = [answer[day] for day in data["days"]]
    return (
        all(name in data["staff"] for name in row)
        and all(day not in data["away"][name] for day, name in zip(data["days"], row, strict=True))
        and all(row.count(name) <= data["most"] for name in data["staff"])
        and all(one != two for one, two in itertools.pairwise(row))
        and all(answer[day] in data["trained"] for day in data["busy"])
    )


def answers_rota(data: Data) -> Iterator[dict[str, str]]:
    for row in itertools.product(data["staff"], repeat=len(data["days"])):
        yield dict(zip(data["days"], row, strict=True))


# --- rules: what follows from a rule book about one thing


def make_rules(draw: random.Random, level: int) -> Data:
    while True:
        words = draw.sample(WORDS, 9 if level == 1 else 14)
        count = 7 if level == 1 else 13
        rules: list[Any] = []
        for _ in range(count):
            *given, then = draw.sample(words, draw.choice((2, 3)))
            rules.append([sorted(given), then])
        data: Data = {"facts": sorted(draw.sample(words, 2)), "rules": rules, "asked": []}
        follows = _closure(data) - {*data["facts"]}
        others = [word for word in words if word not in _closure(data)]
        if len(follows) >= 3 and len(others) >= 3:
            right = draw.randint(2, 3)
            asked = draw.sample(sorted(follows), right) + draw.sample(others, 5 - right)
            draw.shuffle(asked)
            return {**data, "asked": asked}


def _closure(data: Data) -> set[str]:
    known = {*data["facts"]}
    while True:
        new = {then for given, then in data["rules"] if known.issuperset(given)} - known
        if not new:
            return known
        known |= new


def check_rules(data: Data, answer: Any) -> bool:
    return _checked([word for word in data["asked"] if word in _closure(data)], answer)


def answers_rules(data: Data) -> Iterator[list[str]]:
    for count in range(len(data["asked"]) + 1):
        yield from map(list, itertools.combinations(data["asked"], count))


# --- jugs: measure an amount by filling, emptying and pouring, in as few moves as possible


def make_jugs(draw: random.Random, level: int) -> Data:
    while True:
        sizes = sorted(draw.sample(range(3, 12 if level == 1 else 14), level + 1))
        data: Data = {"sizes": sizes, "goal": draw.randint(1, sizes[-1] - 1), "most": 12}
        shortest = next(answers_jugs(data), None)
        if data["goal"] not in sizes and shortest is not None and len(shortest) >= 4:
            return {**data, "most": len(shortest)}


def _poured(data: Data, state: tuple[int, ...], move: Sequence[str]) -> tuple[int, ...] | None:
    names, jugs = "ABC"[: len(state)], [*state]
    match [part.strip() for part in move]:
        case ["fill", jug] if jug in names:
            jugs[names.index(jug)] = data["sizes"][names.index(jug)]
        case ["empty", jug] if jug in names:
            jugs[names.index(jug)] = 0
        case ["pour", one, two] if one in names and two in names and one != two:
            source, target = names.index(one), names.index(two)
            amount = min(jugs[source], data["sizes"][target] - jugs[target])
            jugs[source] -= amount
            jugs[target] += amount
        case _:
            return None
    return (*jugs,)


def check_jugs(data: Data, answer: Any) -> bool:
    state: tuple[int, ...] | None = (0,) * len(data["sizes"])
    moves = cast("list[object]", answer) if isinstance(answer, list) else None
    if moves is None or len(moves) > data["most"]:
        return False
    for move in moves:
        state = _poured(data, state, str(move).split())
        if state is None:
            return False
    return data["goal"] in state


def answers_jugs(data: Data) -> Iterator[list[str]]:
    names = "ABC"[: len(data["sizes"])]
    moves = [f"{word} {jug}" for word in ("fill", "empty") for jug in names]
    moves += [f"pour {one} {two}" for one, two in itertools.permutations(names, 2)]
    start: tuple[int, ...] = (0,) * len(names)
    waiting = deque[tuple[tuple[int, ...], list[str]]]([(start, [])])
    seen: set[tuple[int, ...]] = {start}
    while waiting:
        state, done = waiting.popleft()
        if data["goal"] in state:
            yield done
        for move in moves if len(done) < data["most"] else ():
            after = _poured(data, state, move.split())
            if after is not None and after not in seen:
                seen.add(after)
                waiting.append((after, [*done, move]))


class Family(NamedTuple):
    """How tasks of one kind are made, checked and enumerated, and the form of an answer."""

    make: Callable[[random.Random, int], Data]
    check: Callable[[Data, Any], bool]
    answers: Callable[[Data], Iterator[Any]]
    """Candidates, of which at least one passes the check: the control without a model."""
    form: str
    has_form: bool = True
    """Whether the solver is meant for its shape."""


FAMILIES: Mapping[str, Family] = {
    "twenty_four": Family(
        make_twenty_four, check_twenty_four, answers_twenty_four, "an expression", has_form=False
    ),
    "puzzle": Family(make_puzzle, check_puzzle, answers_puzzle, "an object, or a list of names"),
    "route": Family(make_route, check_route, answers_route, "a list of towns"),
    "rota": Family(make_rota, check_rota, answers_rota, "a person for each day"),
    "rules": Family(make_rules, check_rules, answers_rules, "a list of words"),
    "jugs": Family(make_jugs, check_jugs, answers_jugs, "a list of moves", has_form=False),
}


def tasks_of(seed: int, family: str, count: int = TASKS_PER_FAMILY) -> list[Data]:
    """Make tasks: levels and wordings change in turn."""
    made: list[Data] = []
    seen: list[Data] = []
    number = 0
    while len(made) < count:
        number += 1
        level, wording = len(made) % 2 + 1, "ab"[len(made) // 2 % 2]
        data = FAMILIES[family].make(random.Random(f"{seed} {family} {number}"), level)
        if data in seen:
            continue
        seen.append(data)
        module = wording_a if wording == "a" else wording_b
        question = getattr(module, family)(data)
        key = f"{family}-{seed}-{len(made) + 1:02}"
        facts = {"id": key, "family": family, "level": level, "wording": wording}
        made.append({**facts, "question": question, "data": data})
    return made


def frozen_tasks() -> list[Data]:
    """Read the frozen tasks."""
    lines = (FOLDER / "tasks.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def check(task: Data, answer: Any) -> bool:
    """Return whether an answer is right, by the question alone; nonsense is wrong, no error."""
    try:
        return FAMILIES[task["family"]].check(task["data"], answer)
    except (TypeError, KeyError, ValueError, IndexError, AttributeError):
        return False
