"""Random problems of each form have the answers that going through all possibilities has."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from plait.reasoning.solving.engine import Deadline, answers, check
from plait.reasoning.solving.problem import Answer, read_problem

SLICES = 20
PER_SLICE = 100
"""2,000 problems of each form in all."""

slices = pytest.mark.parametrize("part", range(SLICES))

Values = Mapping[str, Any]
Rule = tuple[str, Callable[[Values], Any]]
"""An expression, and what it means: written here a second time, in Python."""


def last_answer(problem: Mapping[str, Any]) -> Answer:
    read = read_problem(problem)
    assert not isinstance(read, Answer), read.text
    *_, answer = answers(read, Deadline(time.monotonic() + 60))
    return answer


def verdict_of(problem: Mapping[str, Any], proposed: Mapping[str, Any]) -> str:
    read = read_problem(problem)
    assert not isinstance(read, Answer)
    return check(read, dict(proposed), Deadline(time.monotonic() + 60)).status


def is_minimal(core: Sequence[Any], is_possible: Callable[[Sequence[Any]], bool]) -> bool:
    """Return whether a core contradicts itself, and nothing less of it does."""
    others = ([one for one in core if one is not left] for left in core)
    return not is_possible(core) and all(map(is_possible, others))


def possible(some: Sequence[Rule], every: Sequence[Values]) -> bool:
    return any(all(rule(values) for _text, rule in some) for values in every)


def number(draw: random.Random, names: Sequence[str], depth: int) -> Rule:
    if depth == 0 or not names or draw.random() < 0.3:
        if names and draw.random() < 0.7:
            name = draw.choice(names)
            return name, lambda values: values[name]
        constant = draw.randint(0, 6)
        return str(constant), lambda _values: constant
    (one, left), (two, right) = (number(draw, names, depth - 1) for _ in range(2))
    by = draw.randint(2, 4)
    made: list[Rule] = [
        (f"({one} + {two})", lambda values: left(values) + right(values)),
        (f"({one} - {two})", lambda values: left(values) - right(values)),
        (f"({one}) * ({two})", lambda values: left(values) * right(values)),
        (f"-({one})", lambda values: -left(values)),
        (f"abs({one} - {two})", lambda values: abs(left(values) - right(values))),
        (f"max({one}, {two})", lambda values: max(left(values), right(values))),
        (f"min({one}, {two})", lambda values: min(left(values), right(values))),
        (f"({one}) // {by}", lambda values: left(values) // by),
        (f"({one}) % {by}", lambda values: left(values) % by),
        (f"if({one} > {two}, {one}, 1)", lambda v: left(v) if left(v) > right(v) else 1),
    ]
    return draw.choice(made)


def condition(draw: random.Random, domains: Mapping[str, Sequence[Any]], depth: int) -> Rule:
    numbers = [name for name, values in domains.items() if isinstance(values[0], int)]
    numbers = [name for name in numbers if not isinstance(domains[name][0], bool)]
    flags = [name for name, values in domains.items() if isinstance(values[0], bool)]
    names = [name for name, values in domains.items() if isinstance(values[0], str)]
    if depth > 0 and draw.random() < 0.5:
        (one, left), (two, right) = (condition(draw, domains, depth - 1) for _ in range(2))
        made: list[Rule] = [
            (f"({one}) and ({two})", lambda values: left(values) and right(values)),
            (f"({one}) or ({two})", lambda values: left(values) or right(values)),
            (f"not ({one})", lambda values: not left(values)),
            (f"({one}) implies ({two})", lambda values: not left(values) or right(values)),
            (f"({one}) iff ({two})", lambda values: left(values) == right(values)),
            (f"exactly(1, {one}, {two})", lambda v: (left(v), right(v)).count(True) == 1),
            (f"at_most(1, [{one}, {two}])", lambda values: not (left(values) and right(values))),
        ]
        return draw.choice(made)
    kinds = ["number"] * 2 + ["flag"] * bool(flags) + ["name"] * (2 * bool(names))
    match draw.choice(kinds):
        case "flag":
            flag = draw.choice(flags)
            return flag, lambda values: values[flag]
        case "name":
            return name_condition(draw, domains, names)
        case _:
            (one, left), (two, right) = (number(draw, numbers, 2) for _ in range(2))
            made = [
                (f"{one} < {two}", lambda values: left(values) < right(values)),
                (f"{one} <= {two}", lambda values: left(values) <= right(values)),
                (f"{one} == {two}", lambda values: left(values) == right(values)),
                (f"{one} != {two}", lambda values: left(values) != right(values)),
                (f"{one} in [{two}, 2]", lambda values: left(values) in (right(values), 2)),
                (f"0 <= {one} < {two}", lambda values: 0 <= left(values) < right(values)),
            ]
            return draw.choice(made)


def name_condition(
    draw: random.Random, domains: Mapping[str, Sequence[Any]], names: Sequence[str]
) -> Rule:
    one, two = draw.choice(names), draw.choice(names)
    value = draw.choice(domains[one])
    order = domains[one]
    listed = ", ".join(names)
    made: list[Rule] = [
        (f"{one} == {value}", lambda values: values[one] == value),
        (f"{one} != {two}", lambda values: values[one] != values[two]),
        (f'{one} not in ["{value}"]', lambda values: values[one] != value),
        (
            f"all_different({listed})",
            lambda values: len({values[name] for name in names}) == len(names),
        ),
        (
            f"count([{listed}], {value}) <= 1",
            lambda values: sum(values[name] == value for name in names) <= 1,
        ),
        (f"{one} <= {value}", lambda values: order.index(values[one]) <= order.index(value)),
        (f"before({one}, {two})", lambda v: order.index(v[one]) < order.index(v[two])),
        (f"next_to({one}, {two})", lambda v: abs(order.index(v[one]) - order.index(v[two])) == 1),
        (f"position({one}) == 2", lambda values: order.index(values[one]) == 1),
    ]
    return draw.choice(made)


@slices
def test_assignments_are_those_that_enumeration_finds(part: int) -> None:
    for key in range(PER_SLICE):
        draw = random.Random(f"variables {part} {key}")
        people = ["Ann", "Ben", "Cleo", "Dan"][: draw.randint(2, 4)]
        domains: dict[str, list[Any]] = {}
        specs: dict[str, Any] = {}
        for name in ("a", "b", "c", "d")[: draw.randint(2, 4)]:
            kind = draw.choice(("range", "numbers", "truth", "names", "names"))
            low = draw.randint(-3, 3)
            match kind:
                case "range":
                    specs[name] = {"min": low, "max": low + draw.randint(0, 4)}
                    domains[name] = [*range(low, specs[name]["max"] + 1)]
                case "numbers":
                    specs[name] = domains[name] = draw.sample(range(-4, 9), 3)
                case "truth":
                    specs[name], domains[name] = "boolean", [False, True]
                case _:
                    specs[name] = domains[name] = people
        rules = [condition(draw, domains, 2) for _ in range(draw.randint(1, 6))]
        every = [
            dict(zip(domains, row, strict=True)) for row in itertools.product(*domains.values())
        ]
        right = [values for values in every if all(rule(values) for _text, rule in rules)]
        problem: dict[str, Any] = {
            "variables": specs,
            "constraints": [{"name": f"r{i}", "rule": text} for i, (text, _) in enumerate(rules)],
        }
        whole = [name for name in domains if isinstance(domains[name][0], int)]
        amount = None
        if draw.random() < 0.4:
            text, amount = number(draw, [one for one in whole if specs[one] != "boolean"], 2)
            problem[draw.choice(("minimize", "maximize"))] = text
        answer = last_answer(problem)

        if not right:
            assert answer.status == "none", problem
            core = [rules[int(one.name[1:])] for one in answer.conflict]
            assert answer.is_minimal
            assert is_minimal(core, lambda some, every=every: possible(some, every)), problem
        elif amount is not None:
            best = (min if "minimize" in problem else max)(map(amount, right))
            assert (answer.status, answer.value, answer.bound) == ("best", best, best), problem
            assert answer.solution in right
            assert amount(answer.solution) == best
            count = sum(amount(values) == best for values in right)
            assert (answer.other is not None) == (count > 1), problem
            assert answer.other is None or answer.other in right
        elif len(right) == 1:
            assert (answer.status, answer.solution) == ("one", right[0]), problem
        else:
            assert answer.status == "several", problem
            assert answer.solution in right
            assert answer.other in right
            assert answer.solution != answer.other
            chosen = {**problem, "constraints": [*problem["constraints"], answer.tell_apart]}
            assert verdict_of(chosen, answer.solution or {}) == "holds", problem
            assert verdict_of(chosen, answer.other or {}) == "fails", problem
        some = draw.choice(every)
        if amount is None:
            assert verdict_of(problem, some) == ("holds" if some in right else "fails"), problem


def order_rule(draw: random.Random, things: Sequence[str], *, circle: bool) -> Rule:
    one, two = draw.sample(things, 2)
    place, size = draw.randint(1, len(things)), len(things)

    def gap(order: Values) -> int:
        away = order[two] - order[one]
        return away % size if circle else away

    made: list[Rule] = [
        (f"before({one}, {two})", lambda order: order[one] < order[two]),
        (f"after({one}, {two})", lambda order: order[one] > order[two]),
        (f"{one} == {place}", lambda order: order[one] == place),
        (f"{one} != {place}", lambda order: order[one] != place),
        (
            f"next_to({one}, {two})",
            lambda order: gap(order) in ((1, size - 1) if circle else (1, -1)),
        ),
        (
            f"right_after({one}, {two})",
            lambda order: gap(order) == (size - 1 if circle else -1),
        ),
        (f"abs({one} - {two}) >= 2", lambda order: abs(order[one] - order[two]) >= 2),
    ]
    if circle and size % 2 == 0:
        made.append((f"opposite({one}, {two})", lambda order: gap(order) == size // 2))
    return draw.choice(made)


@slices
def test_orders_are_those_that_enumeration_finds(part: int) -> None:
    for key in range(PER_SLICE):
        draw = random.Random(f"order {part} {key}")
        things = ["ant", "bee", "cat", "dog", "elk", "fox"][: draw.randint(3, 6)]
        circle = draw.random() < 0.5
        size = len(things)

        rules = [order_rule(draw, things, circle=circle) for _ in range(draw.randint(1, 6))]
        every = [
            {thing: place for place, thing in enumerate(order, 1)}
            for order in itertools.permutations(things)
        ]
        right = [order for order in every if all(rule(order) for _text, rule in rules)]
        problem: dict[str, Any] = {
            "form": "order",
            "things": things,
            "circle": circle,
            "constraints": [{"name": f"r{i}", "rule": text} for i, (text, _) in enumerate(rules)],
        }
        answer = last_answer(problem)
        orders = [sorted(things, key=order.__getitem__) for order in right]

        if not right:
            assert answer.status == "none", problem
            named = {one.name for one in answer.conflict}
            core = [rules[int(name[1:])] for name in named if name != "places"]
            # Without places of their own, things may stand anywhere.
            free = [
                dict(zip(things, row, strict=True))
                for row in itertools.product(range(1, size + 1), repeat=size)
            ]
            within = every if "places" in named else free

            assert is_minimal(core, lambda some, within=within: possible(some, within)), problem
            assert "places" not in named or possible(core, free), problem
        else:
            assert answer.status == ("one" if len(right) == 1 else "several"), problem
            assert (answer.solution or {})["order"] in orders
            if len(right) > 1:
                assert (answer.other or {})["order"] in orders
                assert answer.solution != answer.other
                chosen = {**problem, "constraints": [*problem["constraints"], answer.tell_apart]}
                assert verdict_of(chosen, answer.solution or {}) == "holds"
                assert verdict_of(chosen, answer.other or {}) == "fails"
        some = draw.sample(things, size)
        assert verdict_of(problem, {"order": some}) == ("holds" if some in orders else "fails")


def paths(
    way: list[str], far: Mapping[tuple[str, str], float], known: Sequence[str], end: str
) -> list[list[str]]:
    if way[-1] == end:
        return [way]
    steps = [town for town in known if (way[-1], town) in far and town not in way]
    return [one for town in steps for one in paths([*way, town], far, known, end)]


def fits(way: Sequence[str], via: Sequence[str], avoid: Sequence[str]) -> bool:
    return all(one in way for one in via) and not any(one in way for one in avoid)


def passable(some: Sequence[tuple[str, str]], ways: Sequence[Sequence[str]]) -> bool:
    via = [town for kind, town in some if kind == "via"]
    avoid = [town for kind, town in some if kind == "avoid"]
    return any(fits(way, via, avoid) for way in ways)


def length(way: Sequence[str], far: Mapping[tuple[str, str], float]) -> float:
    return sum(far[pair] for pair in itertools.pairwise(way))


@slices
def test_paths_are_those_that_enumeration_finds(part: int) -> None:
    for key in range(PER_SLICE):
        draw = random.Random(f"path {part} {key}")
        towns = ["Ash", "Bree", "Cove", "Dale", "Elm", "Fen"][: draw.randint(3, 6)]
        pairs = [*itertools.combinations(towns, 2)]
        chosen = draw.sample(pairs, draw.randint(2, len(pairs)))
        roads: list[tuple[str, str, float]] = []
        for pair in chosen:
            one, other = draw.sample(pair, 2)
            roads.append((one, other, draw.choice((0, 1, 2, 3, 4.5, 7))))
        one_way = draw.random() < 0.3
        known = sorted({town for a, b, _ in roads for town in (a, b)})
        start, end = draw.sample(known, 2)
        others = [town for town in known if town not in (start, end)]
        via = draw.sample(others, min(len(others), draw.choice((0, 0, 1, 2))))
        avoid = draw.sample(others, min(len(others), draw.choice((0, 0, 1))))
        far = {(a, b): length for a, b, length in roads}
        if not one_way:
            far |= {(b, a): length for a, b, length in roads}

        every = paths([start], far, known, end)

        right = [way for way in every if fits(way, via, avoid)]
        problem: dict[str, Any] = {
            "form": "path",
            "roads": [[*road] for road in roads],
            "start": start,
            "end": end,
            "via": via,
            "avoid": avoid,
            "one_way": one_way,
        }
        answer = last_answer(problem)
        if not right:
            assert answer.status == "none", problem
            core = {one.name for one in answer.conflict}
            wanted = [town for town in via if f"via {town}" in core]
            unwanted = [town for town in avoid if f"avoid {town}" in core]
            # A place that is to be passed and avoided contradicts itself, without any road.
            assert ("roads" in core) != bool({*wanted} & {*unwanted}), problem
            if "roads" in core:
                rules = [("via", town) for town in wanted] + [("avoid", town) for town in unwanted]

                assert is_minimal(rules, lambda some, ways=every: passable(some, ways)), problem
        else:
            shortest = min(length(way, far) for way in right)
            best = [way for way in right if length(way, far) == shortest]
            assert (answer.status, answer.value, answer.bound) == ("best", shortest, shortest)
            assert (answer.solution or {})["route"] in best, problem
            assert (answer.other is None) == (len(best) == 1), problem
            if answer.other is not None:
                assert answer.other["route"] in best
                assert answer.other["route"] != (answer.solution or {})["route"]
        if every:
            some = draw.choice(every)
            is_best = some in right and length(some, far) == min(length(w, far) for w in right)
            assert verdict_of(problem, {"route": some}) == ("holds" if is_best else "fails")


def literal(draw: random.Random, words: Sequence[str]) -> Rule:
    word = draw.choice(words)
    if draw.random() < 0.75:
        return word, lambda values: values[word]
    return f"not {word}", lambda values: not values[word]


def book_rule(draw: random.Random, words: Sequence[str]) -> Rule:
    (one, left), (two, right), (then, last) = (literal(draw, words) for _ in range(3))
    if draw.random() < 0.5:
        return f"{one} -> {then}", lambda values: not left(values) or last(values)
    if draw.random() < 0.5:
        return f"{one} or {two} -> {then}", lambda v: not (left(v) or right(v)) or last(v)
    return (
        f"{one} and {two} implies {then}",
        lambda values: not (left(values) and right(values)) or last(values),
    )


@slices
def test_conclusions_are_those_that_enumeration_finds(part: int) -> None:
    for key in range(PER_SLICE):
        draw = random.Random(f"rules {part} {key}")
        words = ["dax", "fep", "gorp", "lunt", "mip", "noss"][: draw.randint(3, 6)]
        domains = {word: [False, True] for word in words}

        facts = [literal(draw, words) for _ in range(draw.randint(1, 3))]
        rules = [book_rule(draw, words) for _ in range(draw.randint(1, 7))]
        asked = draw.sample(words, 3)
        every = [dict(zip(words, row, strict=True)) for row in itertools.product(*domains.values())]
        by_name = {f"f{i}": rule for i, rule in enumerate(facts)}
        by_name |= {f"r{i}": rule for i, rule in enumerate(rules)}
        worlds = [v for v in every if all(rule(v) for _text, rule in by_name.values())]
        problem: dict[str, Any] = {
            "form": "rules",
            "facts": [{"name": f"f{i}", "rule": text} for i, (text, _) in enumerate(facts)],
            "rules": [{"name": f"r{i}", "rule": text} for i, (text, _) in enumerate(rules)],
            "ask": asked,
        }
        answer = last_answer(problem)

        if not worlds:
            assert answer.status == "none", problem
            core = [by_name[one.name] for one in answer.conflict]
            assert is_minimal(core, lambda some, every=every: possible(some, every)), problem
            continue
        assert answer.status in ("one", "several")
        for word, found in zip(asked, answer.conclusions, strict=True):
            known = {values[word] for values in worlds}
            right = "open" if len(known) == 2 else "follows" if known == {True} else "excluded"
            assert found.verdict == right, problem
            if right != "open":
                contrary = [values for values in every if values[word] != (right == "follows")]
                core = [by_name[name] for name in found.because]
                assert is_minimal(core, lambda some, all_=contrary: possible(some, all_)), problem
        follows = [one.asked for one in answer.conclusions if one.verdict == "follows"]
        some = draw.sample(asked, draw.randint(0, 3))
        expected = "holds" if {*some} == {*follows} else "fails"
        assert verdict_of(problem, {"follows": some}) == expected
