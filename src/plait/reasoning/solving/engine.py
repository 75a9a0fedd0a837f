"""Answers problems with Z3: solutions, contradictions, conclusions, and the best of all.

It runs in the process of the worker, which is ended when it takes too long or too much memory.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from math import floor, lcm
from typing import Any, Final, Literal, TypeAlias

from plait.reasoning.solving.expressions import (
    Assignment,
    Domain,
    Node,
    Value,
    amount,
    bounds,
    holds,
)
from plait.reasoning.solving.forms import Condition, Core, MistakesError, core_of
from plait.reasoning.solving.problem import (
    Answer,
    Conclusion,
    Named,
    Problem,
    RulesProblem,
    Solution,
    Verdict,
    malformed,
)

z3: Any = import_module("z3")  # an extra, and without types

MIN_QUERY_MS: Final = 50

Found: TypeAlias = Assignment | Literal["none", "unknown"]


@dataclass(frozen=True, slots=True)
class Deadline:
    """When the time for a problem ends."""

    ends: float

    @property
    def left_ms(self) -> int:
        """Milliseconds that are left."""
        return max(0, int((self.ends - time.monotonic()) * 1000))


class _Model:
    """The constraints of a problem in Z3; each can be left out."""

    def __init__(self, core: Core, deadline: Deadline) -> None:
        self._core = core
        self._deadline = deadline
        self._symbols: dict[str, int] = {}
        for domain in core.variables.values():
            for name in domain.names:
                self._symbols.setdefault(name, len(self._symbols))
        self._texts = {number: name for name, number in self._symbols.items()}
        self.solver = z3.Solver()
        self._constants = {
            name: self._constant(number, domain)
            for number, (name, domain) in enumerate(core.variables.items())
        }
        self._assumed = 0
        self._switches: list[Any] = []
        for number, condition in enumerate(core.conditions):
            switch = z3.Bool(f"on {number}")
            self._switches.append(switch)
            for node in condition.nodes:
                self.solver.add(z3.Implies(switch, self.translate(node)))

        for hint in core.hints:
            self.solver.add(self.translate(hint))

    def _constant(self, number: int, domain: Domain) -> Any:
        if domain.is_truth:
            return z3.Bool(f"v {number}")
        constant = z3.Int(f"v {number}")
        values = [self._symbols[name] for name in domain.names] or [*domain.numbers]
        low, high = (min(values), max(values)) if values else (domain.low, domain.high)
        self.solver.add(constant >= low, constant <= high)
        if values and len(values) != high - low + 1:
            self.solver.add(z3.Or([constant == value for value in values]))
        return constant

    def translate(self, node: Node) -> Any:
        """Return a tree as a term of Z3."""
        match node.op:
            case "number":
                top, bottom = node.number.as_integer_ratio()
                return z3.IntVal(top) if bottom == 1 else z3.Q(top, bottom)
            case "truth":
                return z3.BoolVal(node.is_true)
            case "variable" | "flag":
                return self._constants[node.name]
            case "value":
                return z3.IntVal(self._symbols[node.name])
            case "position":
                (one,) = node.args
                constant, place = self._constants[one.name], z3.IntVal(1)
                for number, name in enumerate(one.names or (), 1):
                    place = z3.If(constant == self._symbols[name], z3.IntVal(number), place)
                return place
            case _:
                return _joined(node.op, [self.translate(arg) for arg in node.args])

    def assume(self, term: Any) -> Any:
        """Return a switch that is on where the term holds; assumptions are such names only."""
        self._assumed += 1
        switch = z3.Bool(f"assumed {self._assumed}")
        self.solver.add(z3.Implies(switch, term))
        return switch

    def find(self, *more: Any, without: frozenset[int] = frozenset(), share: float = 1) -> Found:
        """Find a solution in a share of the time that is left."""
        self.solver.set("timeout", max(MIN_QUERY_MS, int(self._deadline.left_ms * share)))
        on = [switch for number, switch in enumerate(self._switches) if number not in without]
        result = self.solver.check(*on, *more)
        if result == z3.unsat:
            return "none"
        if result != z3.sat or not self._deadline.left_ms:
            return "unknown"
        model = self.solver.model()
        found: dict[str, Value] = {}
        for name, domain in self._core.variables.items():
            value = model.eval(self._constants[name], model_completion=True)
            if domain.is_truth:
                found[name] = z3.is_true(value)
            else:
                number = value.as_long()
                found[name] = self._texts[number] if domain.names else number
        # The evaluator is another program than the solver: a mistake in either is found here.
        for number, condition in enumerate(self._core.conditions):
            if number not in without and not all(holds(one, found) for one in condition.nodes):
                raise AssertionError(f"the solution violates {condition.named.name}")
        return found

    def differs(self, found: Assignment) -> Any:
        """Return the condition that a solution is another than this one."""
        changes: list[Any] = []
        for name in self._core.answer_variables:
            value = found[name]
            constant = self._constants[name]
            if isinstance(value, bool):
                changes.append(constant != z3.BoolVal(value))
            else:
                number = self._symbols[value] if isinstance(value, str) else value
                changes.append(constant != z3.IntVal(number))
        return z3.Or(changes)

    def core(self) -> list[int]:
        """Return constraints that contradict each other, after `find` has found none."""
        return self._in_core(range(len(self._switches)))

    def needed(self, chosen: list[int], *more: Any) -> tuple[list[int], bool]:
        """Return those that contradict each other and `more`; and whether all are needed.

        Each is left out once; it stays out if the others contradict each other without it.
        """
        is_minimal = True
        for number in [*chosen]:
            if number not in chosen:
                continue
            rest = [one for one in chosen if one != number]
            # With little time left, some may be superfluous, which the answer says.
            absent = frozenset(range(len(self._switches))) - {*rest}
            found = self.find(*more, without=absent, share=0.3)
            if found == "none":
                chosen = self._in_core(rest)
            elif found == "unknown":
                is_minimal = False
        return chosen, is_minimal

    def _in_core(self, among: Sequence[int]) -> list[int]:
        names = {str(one) for one in self.solver.unsat_core()}
        return [number for number in among if f"on {number}" in names]


def _joined(op: str, args: list[Any]) -> Any:
    if op in ("and", "or"):  # of none, too: `all_different(a)`
        return z3.And(args) if op == "and" else z3.Or(args)
    first, *others = args
    match op:
        case "not":
            return z3.Not(first)
        case "==":
            return first == others[0]
        case "!=":
            return first != others[0]
        case "<":
            return first < others[0]
        case "<=":
            return first <= others[0]
        case ">":
            return first > others[0]
        case ">=":
            return first >= others[0]
        case "+":
            return z3.Sum(args)
        case "*":
            return z3.Product(args)
        case "neg":
            return -first
        case "//":
            return first / others[0]  # of integers, by a positive number
        case "%":
            return first % others[0]
        case "abs":
            return z3.If(first < 0, -first, first)
        case "if":
            return z3.If(first, *others)
        case _:
            for other in others:
                is_first = first <= other if op == "min" else first >= other
                first = z3.If(is_first, first, other)
            return first


def answers(problem: Problem, deadline: Deadline) -> Iterator[Answer]:
    """Yield answers, each better than the one before; the last one is final.

    An answer that is not final says what is known when the time ends there.
    """
    try:
        core = core_of(problem)
    except MistakesError as error:
        yield malformed(error.mistakes)
        return
    yield Answer(status="undecided", text="No solution was found in the time or memory allowed.")
    model = _Model(core, deadline)
    found = model.find()
    if found == "unknown":
        return
    if found == "none":
        chosen = model.core()
        # To find out which are needed takes longer.
        yield _none(core, chosen, is_minimal=False)
        chosen, is_minimal = model.needed(chosen)
        yield _none(core, chosen, is_minimal=is_minimal)
    elif core.questions:
        yield _conclusions(core, model)
    elif core.objective is not None:
        yield from _best(core, model, core.objective, found)
    else:
        shown = core.show(found)
        text = (
            f"A solution is {_spoken(shown)}. Whether there is another was not found out in time."
        )
        yield Answer(status="undecided", text=text, solution=shown)
        other = model.find(model.assume(model.differs(found)))
        if other == "none":
            text = f"The only solution is {_spoken(shown)}.{_by_value(shown)}"
            yield Answer(status="one", text=text, solution=shown)
        elif other != "unknown":
            yield _several(core, found, other)


def _several(core: Core, found: Assignment, other: Assignment) -> Answer:
    shown, second = core.show(found), core.show(other)
    apart = core.tell_apart(found, other)
    text = f"There are several solutions: {_spoken(shown)}, or {_spoken(second)}. "
    text += f"Add a constraint to choose; {apart} holds in the first and not in the second."
    text += _by_value(shown)
    return Answer(status="several", text=text, solution=shown, other=second, tell_apart=apart)


def _none(core: Core, chosen: Sequence[int], *, is_minimal: bool) -> Answer:
    conflict = [core.conditions[number].named for number in chosen]
    text = "There is no solution. These contradict each other: " + "; ".join(map(_told, conflict))
    text += "." if text[-1] not in ".!?" else ""
    if not is_minimal:
        text += " Some of them may be superfluous: the time ended."
    else:
        text += " Change or drop one of them." if len(conflict) > 1 else " Change or drop it."
    return Answer(status="none", text=text, conflict=conflict, is_minimal=is_minimal)


def _told(named: Named) -> str:
    return f"{named.name} ({named.says or named.rule})"


def _spoken(solution: Mapping[str, Any]) -> str:
    parts = [
        f"{name} = {', '.join(map(str, value)) if isinstance(value, list) else value}"  # pyright: ignore[reportUnknownArgumentType]
        for name, value in solution.items()
    ]
    text = "; ".join(parts[:40]) + ("; …" if len(parts) > 40 else "")
    return text.replace("True", "true").replace("False", "false")


def _by_value(solution: Solution) -> str:
    """Say the other way round what each value goes to, where each goes to several variables."""
    owned: defaultdict[str, list[str]] = defaultdict(list)
    for name, value in solution.items():
        if isinstance(value, str):
            owned[value].append(name)
    if (
        len(solution) != sum(map(len, owned.values()))
        or min(map(len, owned.values()), default=0) < 2
    ):
        return ""
    return f" By value: {_spoken(owned)}."


def _conclusions(core: Core, model: _Model) -> Answer:
    """Say of each question whether it follows, is excluded, or stays open."""
    found: list[Conclusion] = []
    for question in core.questions:
        asked = question.named.rule
        term = model.translate(question.nodes[0])
        conclusion = Conclusion(asked=asked, verdict="open")
        contraries: dict[Verdict, Any] = {"follows": z3.Not(term), "excluded": term}
        for verdict, contrary in contraries.items():
            switch = model.assume(contrary)
            outcome = model.find(switch)
            if outcome == "unknown":
                conclusion = conclusion.model_copy(update={"verdict": "unknown"})
            if outcome == "none":
                chosen, _is_minimal = model.needed(model.core(), switch)
                because = [core.conditions[number].named.name for number in chosen]
                conclusion = Conclusion(asked=asked, verdict=verdict, because=because)
                break
        found.append(conclusion)
    verdicts = {
        verdict: [one.asked for one in found if one.verdict == verdict] for verdict in _VERDICTS
    }
    lines: list[str] = []
    for verdict, group in _GROUPS.items():
        sentences = [
            one.asked + (f" (by {', '.join(one.because)})" if one.because else "")
            for one in found
            if one.verdict == verdict
        ]
        lines += [f"{group}: {'; '.join(sentences)}."] if sentences else []
    status = "several" if verdicts["open"] else "one"
    if unknown := verdicts.pop("unknown"):
        status, verdicts["unknown"] = "undecided", unknown
    return Answer(status=status, text=" ".join(lines), solution=verdicts, conclusions=found)


_VERDICTS: Final[Mapping[Verdict, str]] = {
    "follows": "follows",
    "excluded": "is excluded",
    "open": "is open: neither it nor its opposite follows",
    "unknown": "was not decided in time",
}


_GROUPS: Final[Mapping[Verdict, str]] = {
    "follows": "These follow",
    "excluded": "These are excluded",
    "open": "These do not follow, nor do their opposites",
    "unknown": "These were not decided in time",
}


def _because(conclusion: Conclusion) -> str:
    return f", by {', '.join(conclusion.because)}" if conclusion.because else ""


def _best(core: Core, model: _Model, objective: Node, found: Assignment) -> Iterator[Answer]:
    """Halve the range between the best solution and what no solution can reach.

    Values are scaled to integers, so that the halving ends.
    """
    sign = -1 if core.is_maximized else 1
    scale = _denominator(objective)
    low, high = (limit * sign * scale for limit in bounds(objective, core.variables))
    reach = floor(min(low, high))
    cost = int(amount(objective, found) * sign * scale)
    term = model.translate(objective) * (sign * scale)
    goal = "largest" if core.is_maximized else "smallest"

    def answer(*, is_final: bool) -> Answer:
        value, bound = (_plain(Fraction(one * sign, scale)) for one in (cost, reach))
        shown = core.show(found)
        text = f"The {goal} value is {value}: {_spoken(shown)}."
        if not is_final or bound != value:
            than = "above" if core.is_maximized else "below"
            text = f"The {goal} value found in time is {value}: {_spoken(shown)}. "
            text += f"No solution is {than} {bound}; whether there is a better one is not known."
        return Answer(status="best", text=text, solution=shown, value=value, bound=bound)

    yield answer(is_final=False)
    while reach < cost:
        middle = (reach + cost) // 2
        better = model.find(model.assume(term <= middle), share=0.5)
        if better == "unknown":
            # To improve a little is easier than to improve by half.
            better = model.find(model.assume(term <= cost - 1), share=0.5)
            if better == "unknown":
                yield answer(is_final=True)
                return
            middle = cost - 1
        if better == "none":
            reach = middle + 1
        else:
            found = better
            cost = int(amount(objective, found) * sign * scale)
        yield answer(is_final=False)
    final = answer(is_final=True)
    yield final
    other = model.find(model.assume(term <= cost), model.assume(model.differs(found)))
    if not isinstance(other, str):
        second, apart = core.show(other), core.tell_apart(found, other)
        text = f"{final.text} Another one as good is {_spoken(second)}; "
        text += f"{apart} holds in the first and not in the second."
        yield final.model_copy(update={"text": text, "other": second, "tell_apart": apart})


def _denominator(node: Node) -> int:
    """Return a number by which every value of a tree becomes an integer."""
    if node.op == "number":
        return node.number.denominator
    scales = [_denominator(arg) for arg in node.args if not arg.is_truth]
    if node.op == "*":
        product = 1
        for scale in scales:
            product *= scale
        return product
    return lcm(1, *scales)


def _plain(number: Fraction) -> int | float:
    return number.numerator if number.denominator == 1 else float(number)


def check(problem: Problem, proposed: Solution, deadline: Deadline) -> Answer:
    """Say whether a proposed solution holds; with an objective, also whether it is the best."""
    try:
        core = core_of(problem)
        assignment = core.assign(proposed)
    except MistakesError as error:
        return malformed(error.mistakes)
    if isinstance(problem, RulesProblem):
        return _check_conclusions(problem, proposed, deadline)
    failed = [one for one in core.conditions if not _all_hold(one, assignment)]
    if failed:
        conflict = [one.named for one in failed]
        text = f"It violates {'; '.join(map(_told, conflict))}"
        text += "." if text[-1] not in ".!?" else ""
        return Answer(status="fails", text=text, solution=proposed, conflict=conflict)
    if core.objective is None:
        return Answer(status="holds", text="It holds: no constraint fails.", solution=proposed)
    value = amount(core.objective, assignment)
    *_, best = answers(problem, deadline)
    holding = Answer(
        status="holds", text="", solution=proposed, value=_plain(value), bound=best.bound
    )
    if best.value is None or Fraction(str(best.value)) == value:
        known = "and nothing is better" if best.bound == best.value else "nothing better was found"
        return holding.model_copy(update={"text": f"It holds, {known}: {holding.value}."})
    is_better = (best.value > value) == core.is_maximized
    if not is_better:
        return holding.model_copy(update={"text": "It holds; nothing better was found in time."})
    text = (
        f"Every constraint holds, but its value is {holding.value}, and {best.value} is possible: "
    )
    text += f"{_spoken(best.solution or {})}."
    update = {"status": "fails", "text": text, "other": best.solution}
    return holding.model_copy(update=update)


def _all_hold(condition: Condition, assignment: Assignment) -> bool:
    return all(holds(node, assignment) for node in condition.nodes)


def _check_conclusions(problem: Problem, proposed: Solution, deadline: Deadline) -> Answer:
    *_, right = answers(problem, deadline)
    if right.status not in ("one", "several"):
        return right
    said = {*proposed["follows"]}
    wrong = [one for one in right.conclusions if (one.verdict == "follows") != (one.asked in said)]
    if not wrong:
        return Answer(
            status="holds", text="It holds: these follow, and no others.", solution=proposed
        )
    lines = [f"{one.asked} {_VERDICTS[one.verdict]}{_because(one)}." for one in wrong]
    return Answer(status="fails", text=" ".join(lines), solution=proposed, conclusions=wrong)
