"""Translates the forms of a problem into variables, constraints and an objective."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import pairwise
from math import inf
from typing import Any, Final, TypeAlias, cast

from plait._support.suggestions import suggest_names
from plait.reasoning.solving.expressions import (
    FUNCTIONS,
    WORDS,
    Assignment,
    Domain,
    ExpressionError,
    Node,
    Parser,
    Value,
)
from plait.reasoning.solving.problem import (
    Constraint,
    Mistake,
    Named,
    OrderProblem,
    PathProblem,
    Problem,
    Range,
    RulesProblem,
    Solution,
    VariablesProblem,
    VariableType,
)

MAX_DECIMALS: Final = 6
"""Lengths are read with so many."""


class MistakesError(ValueError):
    """A problem is malformed."""

    def __init__(self, *mistakes: Mistake) -> None:
        super().__init__(mistakes[0].problem)
        self.mistakes = [*mistakes]


@dataclass(frozen=True, slots=True)
class Condition:
    """A constraint: `nodes` must all hold."""

    named: Named
    nodes: tuple[Node, ...]


Show: TypeAlias = Callable[[Assignment], Solution]
Apart: TypeAlias = Callable[[Assignment, Assignment], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """A problem as the solver takes it, and how its solutions are shown in the terms of a form."""

    variables: Mapping[str, Domain]
    conditions: tuple[Condition, ...]
    objective: Node | None = None
    """What is minimized, or maximized."""
    is_maximized: bool = False
    questions: tuple[Condition, ...] = ()
    """What may follow from the constraints."""
    hints: tuple[Node, ...] = ()
    """What holds in every best solution; it only makes the search shorter."""
    answer_variables: tuple[str, ...]
    """Two solutions that are equal in these are the same."""
    show: Show
    tell_apart: Apart
    assign: Callable[[Solution], Assignment]
    """Reads a solution in the terms of the form; a mistake raises `MistakesError`."""


def core_of(problem: Problem) -> Core:
    """Translate a problem.

    Raises:
        MistakesError: It is malformed.
    """
    match problem:
        case VariablesProblem():
            return _variables_core(problem)
        case OrderProblem():
            return _order_core(problem)
        case PathProblem():
            return _path_core(problem)
        case RulesProblem():
            return _rules_core(problem)


_PLAIN_NAME: Final = re.compile(r"[^\W\d]\w*(?:\.\w+)*")


def quoted(name: str) -> str:
    """Return a name as it is written in an expression."""
    is_plain = _PLAIN_NAME.fullmatch(name) and name.lower() not in {*FUNCTIONS, *WORDS}
    return name if is_plain else f'"{name}"'


def _read_all(
    parser: Parser, place: str, constraints: Sequence[Constraint], prefix: str = "c"
) -> tuple[Condition, ...]:
    """Parse constraints; all mistakes are collected."""
    found: list[Condition] = []
    mistakes: list[Mistake] = []
    seen: set[str] = set()
    for number, one in enumerate(constraints):
        name = one.name or f"{prefix}{number + 1}"
        here = f"{place}[{number}]"
        if name in seen:
            problem = f"there is another constraint of the name {name!r}"
            mistakes.append(Mistake(place=f"{here}.name", problem=problem, nearest=f"{name}_2"))
        seen.add(name)
        try:
            node = parser.truth(one.rule)
        except ExpressionError as error:
            mistakes.append(_mistake(f"{here}.rule", one.rule, error))
            continue
        named = Named(name=name, rule=one.rule, says=one.says or "")
        found.append(Condition(named, (node,)))
    if mistakes:
        raise MistakesError(*mistakes)
    return (*found,)


def _mistake(place: str, text: str, error: ExpressionError) -> Mistake:
    before = text[max(0, error.at - 20) : error.at]
    shown = f"{before}⟦here⟧{text[error.at : error.at + 20]}"
    problem = f"{error}, at character {error.at + 1}: {shown}"
    return Mistake(place=place, problem=problem, nearest=error.nearest)


def _objective(
    parser: Parser, problem: VariablesProblem | OrderProblem
) -> tuple[Node | None, bool]:
    if problem.minimize and problem.maximize:
        text = "there can be one objective only"
        raise MistakesError(Mistake(place="maximize", problem=text, nearest="minimize: a - b"))
    place = "maximize" if problem.maximize else "minimize"
    text = problem.maximize or problem.minimize
    if text is None:
        return None, False
    try:
        return parser.number(text), problem.maximize is not None
    except ExpressionError as error:
        raise MistakesError(_mistake(place, text, error)) from None


def _domain(name: str, spec: VariableType) -> Domain:
    place = f"variables.{name}"
    if spec == "boolean":
        return Domain(is_truth=True)
    if isinstance(spec, Range):
        if spec.min > spec.max:
            nearest = f'{{"min": {spec.max}, "max": {spec.min}}}'
            raise MistakesError(Mistake(place=place, problem="min exceeds max", nearest=nearest))
        return Domain(low=spec.min, high=spec.max)
    values = [*dict.fromkeys(spec)]
    numbers = [value for value in values if isinstance(value, int)]
    if len(numbers) == len(values):
        return Domain(numbers=(*sorted(numbers),), low=min(numbers), high=max(numbers))
    if numbers:
        nearest = ", ".join(f'"{value}"' for value in values[:5])
        problem = "values are either names or numbers"
        raise MistakesError(Mistake(place=place, problem=problem, nearest=f"[{nearest}]"))
    return Domain(names=(*map(str, values),))


def _variables_core(problem: VariablesProblem) -> Core:
    variables: dict[str, Domain] = {}
    for names, spec in problem.variables.items():
        for name in names.split(", "):
            if name in variables:
                text = "this variable is there twice"
                raise MistakesError(Mistake(place=f"variables.{name}", problem=text))
            variables[name] = _domain(name, spec)
    for name, members in problem.lists.items():
        for one in members:
            if one not in variables:
                nearest = suggest_names(one, variables)
                text = f"{one!r} is no variable"
                raise MistakesError(Mistake(place=f"lists.{name}", problem=text, nearest=nearest))
    parser = Parser(variables, problem.lists)
    objective, is_maximized = _objective(parser, problem)

    def tell_apart(one: Assignment, other: Assignment) -> str:
        name = next(name for name in variables if one[name] != other[name])
        value = one[name]
        if isinstance(value, bool):
            return quoted(name) if value else f"not {quoted(name)}"
        return f"{quoted(name)} == {quoted(value) if isinstance(value, str) else value}"

    return Core(
        variables=variables,
        conditions=_read_all(parser, "constraints", problem.constraints),
        objective=objective,
        is_maximized=is_maximized,
        answer_variables=(*variables,),
        show=dict,
        tell_apart=tell_apart,
        assign=lambda solution: _assignment(variables, solution),
    )


def _assignment(variables: Mapping[str, Domain], solution: Solution) -> Assignment:
    """Check that a solution has a possible value for each variable."""
    mistakes: list[Mistake] = []
    for name, domain in variables.items():
        place = f"solution.{name}"
        if name not in solution:
            mistakes.append(Mistake(place=place, problem="is missing", nearest=domain.describe()))
        elif solution[name] not in domain:
            problem = "is none of the values of this variable"
            mistakes.append(Mistake(place=place, problem=problem, nearest=domain.describe()))
    for name in solution:
        if name not in variables:
            nearest = suggest_names(name, variables)
            text = "is no variable"
            mistakes.append(Mistake(place=f"solution.{name}", problem=text, nearest=nearest))
    if mistakes:
        raise MistakesError(*mistakes)
    return cast("dict[str, Value]", {name: solution[name] for name in variables})


def _names_in(solution: Solution, field: str) -> list[str]:
    """Return the only field of a solution, a list of names."""
    value: object = solution.get(field)
    if {*solution} - {field, "length"} or not isinstance(value, list):
        nearest = f'{{"{field}": ["a", "b"]}}'
        text = f"must be an object with {field}"
        raise MistakesError(Mistake(place="solution", problem=text, nearest=nearest))
    return [str(one) for one in cast("list[object]", value)]


def _order_core(problem: OrderProblem) -> Core:
    things = [*dict.fromkeys(problem.things)]
    variables = {thing: Domain(low=1, high=len(things)) for thing in things}
    parser = Parser(variables, circle=len(things) if problem.circle else 0)
    objective, is_maximized = _objective(parser, problem)
    different = parser.truth(f"all_different({', '.join(map(quoted, things))})")
    places = Condition(
        Named(name="places", rule="all different", says="Everything has a place of its own."),
        (different,),
    )

    def assign(solution: Solution) -> Assignment:
        order = _names_in(solution, "order")
        for thing in {*order} ^ {*things}:
            text = "is missing" if thing in things else "is none of the things"
            nearest = suggest_names(thing, things)
            raise MistakesError(Mistake(place=f"solution.{thing}", problem=text, nearest=nearest))
        return {thing: order.index(thing) + 1 for thing in things}

    def tell_apart(one: Assignment, other: Assignment) -> str:
        thing = next(thing for thing in things if one[thing] != other[thing])
        return f"{quoted(thing)} == {one[thing]}"

    return Core(
        variables=variables,
        conditions=(places, *_read_all(parser, "constraints", problem.constraints)),
        objective=objective,
        is_maximized=is_maximized,
        answer_variables=(*things,),
        show=lambda found: {"order": sorted(things, key=lambda thing: found[thing])},
        tell_apart=tell_apart,
        assign=assign,
    )


def _path_core(problem: PathProblem) -> Core:
    """A road is true if it is taken; a place has the number of its step, or 0.

    Numbers that rise along the path keep circles away that touch nothing else.
    """
    lengths: dict[tuple[str, str], float] = {}
    for one, other, length in problem.roads:
        for way in ((one, other),) if problem.one_way else ((one, other), (other, one)):
            lengths[way] = min(length, lengths.get(way, length))
    places = [*dict.fromkeys(place for way in lengths for place in way)]
    start, end = problem.start, problem.end
    named = {"start": [start], "end": [end], "via": problem.via, "avoid": problem.avoid}
    for field, names in named.items():
        for name in names:
            if name not in places:
                nearest = suggest_names(name, places)
                raise MistakesError(
                    Mistake(place=field, problem=f"no road leads to {name!r}", nearest=nearest)
                )
    if start == end:
        text = "start and end are the same place"
        raise MistakesError(Mistake(place="end", problem=text, nearest="another place"))

    def road(way: tuple[str, str]) -> str:
        return f'"{way[0]} > {way[1]}"'

    step = {place: f'"at {place}"' for place in places}
    variables = {road(way).strip('"'): Domain(is_truth=True) for way in lengths}
    ways = (*variables,)
    variables |= {f"at {place}": Domain(low=0, high=len(places)) for place in places}
    into: defaultdict[str, list[str]] = defaultdict(list)
    out: defaultdict[str, list[str]] = defaultdict(list)
    rules: list[str] = [f"{step[start]} == 1"]
    for way in lengths:
        out[way[0]].append(road(way))
        into[way[1]].append(road(way))
        rules.append(f"{road(way)} implies {step[way[1]]} == {step[way[0]]} + 1")

    def total(roads: Sequence[str]) -> str:
        return f"sum({', '.join(roads)})" if roads else "0"

    for place in places:
        came, left = total(into[place]), total(out[place])
        match place:
            case _ if place == start:
                rules += [f"{came} == 0", f"{left} == 1"]
            case _ if place == end:
                rules += [f"{came} == 1", f"{left} == 0"]
            case _:
                rules += [f"{came} == {left}", f"{came} <= 1"]
                rules.append(f"{came} == 0 implies {step[place]} == 0")
    parser = Parser(variables)
    arrow = "->" if problem.one_way else "-"
    says = f"A path from {start} to {end} on these roads, no place twice."
    roads = Named(name="roads", rule=f"{start} {arrow} {end}", says=says)
    conditions = [Condition(roads, tuple(map(parser.truth, rules)))]
    for name in dict.fromkeys(problem.via):
        rule = f"{step[name]} >= 1"
        via = Named(name=f"via {name}", rule=rule, says=f"The path passes through {name}.")
        conditions.append(Condition(via, (parser.truth(rule),)))
    for name in dict.fromkeys(problem.avoid):
        rule = f"{step[name]} == 0"
        avoid = Named(name=f"avoid {name}", rule=rule, says=f"The path stays away from {name}.")
        conditions.append(Condition(avoid, (parser.truth(rule),)))
    amounts = [f"{_decimal(length)} * {road(way)}" for way, length in lengths.items()]

    def show(found: Assignment) -> Solution:
        following = {way[0]: way[1] for way in lengths if found[road(way).strip('"')] is True}
        route = [start]
        while route[-1] in following and len(route) <= len(places):
            route.append(following[route[-1]])
        far = sum(lengths[way] for way in pairwise(route))
        return {"route": route, "length": int(far) if far == int(far) else round(far, 6)}

    def assign(solution: Solution) -> Assignment:
        route = _names_in(solution, "route")
        pairs = [*pairwise(route)]
        for pair in pairs:
            if pair not in lengths:
                text = f"there is no road from {pair[0]!r} to {pair[1]!r}"
                nearest = suggest_names(pair[1], [b for a, b in lengths if a == pair[0]])
                raise MistakesError(Mistake(place="solution.route", problem=text, nearest=nearest))
        taken: dict[str, Value] = {road(way).strip('"'): way in pairs for way in lengths}
        steps = {place: route.index(place) + 1 for place in route}
        taken |= {f"at {place}": steps.get(place, 0) for place in places}
        return taken

    def tell_apart(one: Assignment, other: Assignment) -> str:
        route, second = show(one)["route"], show(other)["route"]
        for place in route:
            if place not in second:
                return f"via {place}"
        extra = [place for place in second if place not in route]
        return f"avoid {extra[0]}" if extra else " - ".join(route)

    hints: list[Node] = []
    if not problem.via:
        # Most roads lead off every shortest path; without them the search is short.
        open_ways = {way: far for way, far in lengths.items() if {*way}.isdisjoint(problem.avoid)}
        from_start = _distances(open_ways, start)
        to_end = _distances({(b, a): far for (a, b), far in open_ways.items()}, end)
        if end in from_start:
            most = from_start[end] * (1 + 1e-9) + 1e-9
            for (here, there), far in lengths.items():
                shortest = from_start.get(here, inf) + far + to_end.get(there, inf)
                if shortest > most:
                    hints.append(parser.truth(f"not {road((here, there))}"))

    return Core(
        variables=variables,
        conditions=(*conditions,),
        hints=(*hints,),
        objective=parser.number(" + ".join(amounts)),
        answer_variables=ways,
        show=show,
        tell_apart=tell_apart,
        assign=assign,
    )


def _distances(lengths: Mapping[tuple[str, str], float], start: str) -> dict[str, float]:
    """Return how far each place that can be reached is."""
    found: dict[str, float] = {}
    waiting = [(0.0, start)]
    while waiting:
        far, here = heappop(waiting)
        if here in found:
            continue
        found[here] = far
        for (one, other), length in lengths.items():
            if one == here and other not in found:
                heappush(waiting, (far + length, other))
    return found


def _decimal(number: float) -> str:
    return f"{number:.{MAX_DECIMALS}f}".rstrip("0").rstrip(".")


_ANY_NAME: Final = re.compile(r"\"([^\"]*)\"|'([^']*)'|([^\W\d]\w*(?:\.\w+)*)")


def _rules_core(problem: RulesProblem) -> Core:
    asked = [Constraint(rule=text) for text in problem.ask]
    variables: dict[str, Domain] = {}
    for one in (*problem.facts, *problem.rules, *asked):
        for match in _ANY_NAME.finditer(one.rule):
            is_word = match[3] is not None and match[3].lower() in {*FUNCTIONS, *WORDS}
            if not is_word:
                variables[match[1] or match[2] or match[3]] = Domain(is_truth=True)
    parser = Parser(variables)
    facts = _read_all(parser, "facts", problem.facts, "fact ")
    rules = _read_all(parser, "rules", problem.rules, "rule ")
    if twice := {one.named.name for one in facts} & {one.named.name for one in rules}:
        text = f"a fact and a rule have the name {min(twice)!r}"
        raise MistakesError(Mistake(place="rules", problem=text, nearest=f"{min(twice)}_2"))
    questions = _read_all(parser, "ask", asked)

    def tell_apart(one: Assignment, other: Assignment) -> str:
        name = next(name for name in variables if one[name] != other[name])
        return quoted(name) if one[name] else f"not {quoted(name)}"

    def assign(solution: Solution) -> Assignment:
        # An answer lists what follows; it is compared with the verdicts, not with an assignment.
        for name in _names_in(solution, "follows"):
            if name not in problem.ask:
                nearest = suggest_names(name, problem.ask)
                text = f"{name!r} was not asked"
                raise MistakesError(
                    Mistake(place="solution.follows", problem=text, nearest=nearest)
                )
        return {}

    return Core(
        variables=variables,
        conditions=(*facts, *rules),
        questions=questions,
        answer_variables=(*variables,),
        show=dict[str, Any],
        tell_apart=tell_apart,
        assign=assign,
    )
