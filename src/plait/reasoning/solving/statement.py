"""What a model writes where it only has to state a problem, or to propose a solution."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final, Literal

from pydantic import Field, create_model

from plait.reasoning.fields import AnyText, Params
from plait.reasoning.solving.problem import (
    OrderProblem,
    PathProblem,
    Problem,
    Range,
    RulesProblem,
    VariablesProblem,
)

# A model that repeats itself ends at these.
MAX_STATED_ITEMS: Final = 40
MAX_STATED_CHARS: Final = 200

ShortText = Annotated[str, Field(max_length=MAX_STATED_CHARS)]
Texts = Annotated[list[ShortText], Field(max_length=MAX_STATED_ITEMS)]


class StatedRule(Params):
    """A sentence of the question, and the condition that it becomes."""

    # In this order: the sentence that was just copied leads to its rule.
    says: ShortText
    rule: ShortText


StatedRules = Annotated[list[StatedRule], Field(max_length=MAX_STATED_ITEMS)]


class StatedGroup(Params):
    """Variables that have the same values."""

    names: Texts
    values: Annotated[list[ShortText | int], Field(max_length=MAX_STATED_ITEMS)] | Range


class StatedVariables(Params):
    """A problem of the form `variables`."""

    form: Literal["variables"]
    variables: Annotated[list[StatedGroup], Field(max_length=MAX_STATED_ITEMS)]
    constraints: StatedRules
    goal: Literal["none", "minimize", "maximize"]
    amount: ShortText


class StatedOrder(Params):
    """A problem of the form `order`."""

    form: Literal["order"]
    circle: bool
    things: Texts
    constraints: StatedRules


class StatedPath(Params):
    """A problem of the form `path`."""

    form: Literal["path"]
    roads: Annotated[list[tuple[ShortText, ShortText, float]], Field(max_length=MAX_STATED_ITEMS)]
    start: ShortText
    end: ShortText
    via: Texts
    avoid: Texts


class StatedBookRule(Params):
    """A rule whose conditions must all hold."""

    when: Annotated[list[ShortText], Field(max_length=5)]
    then: ShortText


class StatedRuleBook(Params):
    """A problem of the form `rules`."""

    form: Literal["rules"]
    facts: Texts
    rules: Annotated[list[StatedBookRule], Field(max_length=MAX_STATED_ITEMS)]
    ask: Texts


class Statement(Params):
    """A question as a problem."""

    problem: Annotated[
        StatedVariables | StatedOrder | StatedPath | StatedRuleBook, Field(discriminator="form")
    ]

    def data(self) -> dict[str, Any]:
        """Return the problem as `read_problem` reads it."""
        data = self.problem.model_dump(mode="json")
        match self.problem:
            case StatedVariables(goal=goal, amount=amount):
                data["variables"] = {
                    ", ".join(group["names"]): group["values"] for group in data["variables"]
                }
                del data["goal"], data["amount"]
                if goal != "none":
                    data[goal] = amount
            case StatedRuleBook(facts=facts, rules=rules, ask=ask):
                quoted = [
                    {"rule": f"{' and '.join(map(_word, rule.when))} implies {_word(rule.then)}"}
                    for rule in rules
                ]
                data = {
                    "form": "rules",
                    "facts": [*map(_word, facts)],
                    "rules": quoted,
                    "ask": [*map(_word, ask)],
                }
            case _:
                pass
        return data


def _word(text: str) -> str:
    """Return a word as it stands in an expression; a model may write `not` before it."""
    negated = text.removeprefix("not ").strip(" \"'")
    word = negated if negated.isidentifier() else f'"{negated}"'
    return f"not {word}" if text.startswith("not ") else word


def _shown(question: str, statement: dict[str, Any]) -> str:
    return f"Question: {question}\nForm: {json.dumps({'problem': statement})}"


_TASK: Final = (
    "You do not solve the question; you write it down as a form, and a solver solves it. "
    "Copy every name, number and rule; leave nothing out, and add nothing."
)

_FORMS: Final = (
    "- path: the shortest way between two places. List every road of the question, each once.\n"
    "- order: a row or a round table (circle: true); every thing is its place, from 1. Rules: "
    "before(a, b), next_to(a, b), not next_to(a, b), opposite(a, b), right_after(a, b), "
    "a == 1.\n"
    "- rules: what follows. Facts are only what is said of the thing itself; list every rule.\n"
    "- variables: everything else. One variable for each thing that must be found, such as a "
    "day or an item; its values are those that it may get. Rules: a == Ann, a != Ben, a == b, "
    "a in [Ann, Ben], all_different(a, b, c), count([a, b, c], Ann) <= 2, "
    "neighbours_differ(a, b, c), 3 * a + b <= 20, a == Ann implies b == 2, and, or, not. A goal "
    "has an amount; without one write none."
)

STATE_PROMPT: Final = "\n\n".join(
    (
        _TASK,
        _FORMS,
        _shown(
            "One of Eve, Finn and Gus cooks on each of four days, d1 to d4. Eve cannot on d1 and "
            "d3. Nobody cooks twice in a row or more than twice. On d4 Finn or Gus cooks.",
            {
                "form": "variables",
                "variables": [
                    {"names": ["d1", "d2", "d3", "d4"], "values": ["Eve", "Finn", "Gus"]}
                ],
                "constraints": [
                    {"says": "Eve cannot on d1", "rule": "d1 != Eve"},
                    {"says": "Eve cannot on d3", "rule": "d3 != Eve"},
                    {"says": "nobody twice in a row", "rule": "neighbours_differ(d1, d2, d3, d4)"},
                    {"says": "Eve at most twice", "rule": "count([d1, d2, d3, d4], Eve) <= 2"},
                    {"says": "Finn at most twice", "rule": "count([d1, d2, d3, d4], Finn) <= 2"},
                    {"says": "Gus at most twice", "rule": "count([d1, d2, d3, d4], Gus) <= 2"},
                    {"says": "on d4 Finn or Gus", "rule": "d4 in [Finn, Gus]"},
                ],
                "goal": "none",
                "amount": "",
            },
        ),
        _shown(
            "Kim, Lea and Mo each have a car (red or blue or green) and a hat (top, straw, wool). "
            "Kim has the red car. The straw hat goes with the blue car. Mo has no wool hat.",
            {
                "form": "variables",
                "variables": [
                    {
                        "names": ["red", "blue", "green", "top", "straw", "wool"],
                        "values": ["Kim", "Lea", "Mo"],
                    }
                ],
                "constraints": [
                    {"says": "one car each", "rule": "all_different(red, blue, green)"},
                    {"says": "one hat each", "rule": "all_different(top, straw, wool)"},
                    {"says": "Kim has the red car", "rule": "red == Kim"},
                    {"says": "straw goes with blue", "rule": "straw == blue"},
                    {"says": "Mo has no wool hat", "rule": "wool != Mo"},
                ],
                "goal": "none",
                "amount": "",
            },
        ),
        _shown(
            "Five friends sit at a round table. Pia has seat 1. Quin sits next to Rob, not next to "
            "Sue. Sue sits directly after Tom.",
            {
                "form": "order",
                "circle": True,
                "things": ["Pia", "Quin", "Rob", "Sue", "Tom"],
                "constraints": [
                    {"says": "Pia has seat 1", "rule": "Pia == 1"},
                    {"says": "Quin next to Rob", "rule": "next_to(Quin, Rob)"},
                    {"says": "Quin not next to Sue", "rule": "not next_to(Quin, Sue)"},
                    {"says": "Sue directly after Tom", "rule": "right_after(Sue, Tom)"},
                ],
            },
        ),
        _shown(
            "Roads: Oak-Pine 4, Pine-Yew 3, Oak-Yew 9, Yew-Rue 5, Pine-Rue 12, Rue-Box 2, Oak-Box "
            "30. The shortest way from Oak to Box via Pine?",
            {
                "form": "path",
                "roads": [
                    ["Oak", "Pine", 4],
                    ["Pine", "Yew", 3],
                    ["Oak", "Yew", 9],
                    ["Yew", "Rue", 5],
                    ["Pine", "Rue", 12],
                    ["Rue", "Box", 2],
                    ["Oak", "Box", 30],
                ],
                "start": "Oak",
                "end": "Box",
                "via": ["Pine"],
                "avoid": [],
            },
        ),
        _shown(
            "The bird is grey and small. What is grey and small is shy. What is shy is quick. What "
            "is big is slow. What is quick and wild is rare. What is red is wild. "
            "Which are true of it: quick, slow, rare?",
            {
                "form": "rules",
                "facts": ["grey", "small"],
                "rules": [
                    {"when": ["grey", "small"], "then": "shy"},
                    {"when": ["shy"], "then": "quick"},
                    {"when": ["big"], "then": "slow"},
                    {"when": ["quick", "wild"], "then": "rare"},
                    {"when": ["red"], "then": "wild"},
                ],
                "ask": ["quick", "slow", "rare"],
            },
        ),
    )
)
"""The prompt with which a model states a problem, with a worked example of each shape."""


def proposal_type(problem: Problem) -> type[Params]:
    """Return the shape of a proposed solution: some steps, then values that are possible."""
    fields: dict[str, Any] = {}
    match problem:
        case VariablesProblem():
            from_names = (
                (name.strip(), spec)
                for names, spec in problem.variables.items()
                for name in names.split(",")
            )
            for number, (name, spec) in enumerate(from_names):
                kind: Any = int
                if spec == "boolean":
                    kind = bool
                elif isinstance(spec, list):
                    kind = Literal[(*spec,)]
                fields[f"v{number}"] = (kind, Field(alias=name))
        case OrderProblem():
            fields["order"] = (list[Literal[(*problem.things,)]], _at_most(problem.things))
        case PathProblem():
            places = [*dict.fromkeys(place for road in problem.roads for place in road[:2])]
            fields["route"] = (list[Literal[(*places,)]], _at_most(places))
        case RulesProblem():
            fields["follows"] = (list[Literal[(*problem.ask,)]], _at_most(problem.ask))
    solution = create_model("Solution", __base__=Params, **fields)
    return create_model("Proposal", __base__=Params, steps=(AnyText, ""), solution=(solution, ...))


def _at_most(names: list[str]) -> Any:
    return Field(max_length=len(names))
