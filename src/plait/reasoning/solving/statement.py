"""What a model writes where it only has to state a problem, or to propose a solution."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import Field, create_model, model_validator

from plait.reasoning.fields import AnyText, Params
from plait.reasoning.solving.forms import quoted
from plait.reasoning.solving.problem import (
    OrderProblem,
    PathProblem,
    Problem,
    RulesProblem,
    VariablesProblem,
)

# A model that repeats itself ends at these.
MAX_STATED_ITEMS: Final = 40
MAX_STATED_CHARS: Final = 200
MAX_RULES_OF_A_SENTENCE: Final = 12

ShortText = Annotated[str, Field(max_length=MAX_STATED_CHARS)]
Texts = Annotated[list[ShortText], Field(max_length=MAX_STATED_ITEMS)]


class StatedRule(Params):
    """A part of the question, and the conditions that it means."""

    # In this order: the sentence that was just copied leads to its conditions.
    says: ShortText
    rules: Annotated[list[ShortText], Field(max_length=MAX_RULES_OF_A_SENTENCE)]


StatedRules = Annotated[list[StatedRule], Field(max_length=MAX_STATED_ITEMS)]


class Statement(Params):
    """A question as a problem of one kind."""

    def data(self) -> dict[str, Any]:
        """Return the problem as `read_problem` reads it."""
        raise NotImplementedError


class StatedGroup(Params):
    """Variables that have the same values."""

    group: ShortText
    names: Texts
    get: ShortText
    values: Annotated[list[ShortText | int], Field(max_length=MAX_STATED_ITEMS)]
    each_at_most: int
    """How often a value may be used, 0 for any number; asked for, since rules easily lack it."""

    @property
    def numbers(self) -> list[int]:
        """The values, if all of them are whole numbers, also where they are written in quotes."""
        texts = [str(value) for value in self.values]
        return [*map(int, texts)] if all(map(str.isdecimal, texts)) else []


class StatedChoices(Statement):
    """A problem in which each thing gets one of several values."""

    groups: Annotated[list[StatedGroup], Field(max_length=MAX_STATED_ITEMS)]
    rules: StatedRules

    @model_validator(mode="after")
    def _each_thing_is_in_one_group(self) -> StatedChoices:
        for name, count in Counter(name for one in self.groups for name in one.names).items():
            if count > 1:
                raise ValueError(
                    f"{name} is in two groups, but a thing gets one value: let what {name} gets "
                    f"be the things, and {name} one of their values"
                )
        return self

    def data(self) -> dict[str, Any]:
        """Return a problem of the form `variables`."""
        variables = {", ".join(one.names): one.numbers or one.values for one in self.groups}
        names = [str(name) for one in self.groups for name in (*one.names, *one.values)]
        lists = {one.group: one.names for one in self.groups}
        rules = _without_sets(self.rules, {*names, *lists})
        limits = [
            {
                "says": f"Each {one.get} at most {one.each_at_most} times in {one.group}.",
                "rule": f"count([{things}], {value}) <= {one.each_at_most}",
            }
            for one in self.groups
            for things in (", ".join(map(quoted, one.names)),)
            # A limit that cannot be kept was not meant.
            if len(one.names) <= one.each_at_most * len(one.values) and len(one.names) > 1
            for value in one.numbers or map(quoted, map(str, one.values))
        ]
        return {
            "form": "variables",
            "variables": variables,
            "lists": lists,
            "constraints": limits + _constraints(rules, [*names, *lists]),
        }


class StatedAmount(Params):
    """Variables that are whole numbers between two limits."""

    names: Texts
    least: int
    most: int


class StatedAmounts(Statement):
    """A problem in which numbers must be found; what is taken or left is 1 or 0."""

    amounts: Annotated[list[StatedAmount], Field(max_length=MAX_STATED_ITEMS)]
    rules: StatedRules
    goal: Literal["none", "minimize", "maximize"]
    of: ShortText

    def data(self) -> dict[str, Any]:
        """Return a problem of the form `variables`."""
        goal = {self.goal: self.of} if self.goal != "none" else {}
        variables = {
            ", ".join(one.names): {"min": one.least, "max": one.most} for one in self.amounts
        }
        names = [name for one in self.amounts for name in one.names]
        constraints = _constraints(self.rules, names)
        return {"form": "variables", "variables": variables, "constraints": constraints, **goal}


class StatedOrder(Statement):
    """A problem of the form `order`."""

    things: Texts
    circle: bool
    rules: StatedRules

    def data(self) -> dict[str, Any]:
        """Return the problem."""
        constraints = _constraints(self.rules, self.things)
        order = {"form": "order", "things": self.things, "circle": self.circle}
        return {**order, "constraints": constraints}


WITH_RULES: Final = (StatedChoices, StatedAmounts, StatedOrder)
"""The kinds of which single rules can be written again."""


class StatedParts(Params):
    """Parts of a question that are stated again."""

    rules: StatedRules


class StatedRoad(Params):
    """A connection of the question, and what it says of it."""

    # The names are short, for there are many of them.
    says: ShortText
    a: ShortText
    b: ShortText
    n: float


class StatedPath(Statement):
    """A problem of the form `path`."""

    roads: Annotated[list[StatedRoad], Field(max_length=MAX_STATED_ITEMS)]
    one_way: bool
    start: ShortText
    end: ShortText
    via: Texts
    avoid: Texts

    def data(self) -> dict[str, Any]:
        """Return the problem; its ends are no places on the way."""
        ends = {self.start, self.end}
        return {
            "form": "path",
            "roads": [[one.a, one.b, one.n] for one in self.roads],
            "one_way": self.one_way,
            "start": self.start,
            "end": self.end,
            "via": [place for place in self.via if place not in ends],
            "avoid": [place for place in self.avoid if place not in ends],
        }


class StatedBookRule(Params):
    """A rule whose conditions must all hold."""

    says: ShortText
    when: Annotated[list[ShortText], Field(max_length=5)]
    then: ShortText

    def data(self) -> dict[str, Any]:
        """Return the rule; what it would need to follow is no condition of itself."""
        then = _word(self.then)
        when = [word for word in map(_word, self.when) if word != then]
        rule = f"{' and '.join(when)} implies {then}" if when else then
        return {"says": self.says, "rule": rule}


class StatedRuleBook(Statement):
    """A problem of the form `rules`."""

    # Named first, what the question is about does not become a fact.
    about: ShortText
    facts: Texts
    rules: Annotated[list[StatedBookRule], Field(max_length=MAX_STATED_ITEMS)]
    ask: Texts

    def data(self) -> dict[str, Any]:
        """Return the problem."""
        facts, ask = [*map(_word, self.facts)], [*map(_word, self.ask)]
        rules = [one.data() for one in self.rules]
        return {"form": "rules", "facts": facts, "rules": rules, "ask": ask}


_SET: Final = re.compile(
    r"\s*(?P<set>\w+)\s*(?P<sign>==|=|in\b)\s*(?P<of>\[[^\[\]]*\])\s*(?:implies\b(?P<rule>.*))?"
)


def _without_sets(stated: Sequence[StatedRule], known: Container[str]) -> list[StatedRule]:
    """Replace names that the question has for some values, which a rule or a part of it defines."""
    written = [rule for part in stated for rule in part.rules]
    sets: dict[str, str] = {}

    def without_definition(rule: str) -> str:
        match = _SET.fullmatch(rule)
        if match is None or match["set"] in known:
            return rule
        if match["sign"] == "in":
            # A name that nothing else uses may be a thing that is misspelt.
            others = [one for one in written if one != rule] + [match["rule"] or ""]
            if not any(re.search(rf"\b{match['set']}\b", other) for other in others):
                return rule
        sets[match["set"]] = match["of"]
        return match["rule"] or "true"

    parts = [[*map(without_definition, part.rules)] for part in stated]
    names = re.compile("|".join(rf"\b{name}\b" for name in sets) or "(?!)")
    return [
        part.model_copy(update={"rules": [names.sub(lambda at: sets[at[0]], one) for one in rules]})
        for part, rules in zip(stated, parts, strict=True)
    ]


def _constraints(stated: Sequence[StatedRule], names: Iterable[str]) -> list[dict[str, Any]]:
    """Return the rules as constraints; names with other characters get the quotes they need."""
    others = sorted((name for name in names if _needs_quotes(name)), key=len, reverse=True)
    # What is in quotes already is matched first, and kept.
    pattern = "|".join(
        ["\"[^\"]*\"|'[^']*'", *(rf"(?<!\w){re.escape(name)}(?!\w)" for name in others)]
    )

    def written(match: re.Match[str]) -> str:
        return match[0] if match[0][0] in "\"'" else f'"{match[0]}"'

    return [
        {"says": one.says, "rule": re.sub(pattern, written, rule)}
        for one in stated
        for rule in one.rules
    ]


def _needs_quotes(name: str) -> bool:
    return quoted(name) != name and not name.isdecimal()


def _word(text: str) -> str:
    """Return a word as it stands in an expression; a model may write `not` before it."""
    negated = text.removeprefix("not ").strip(" \"'")
    word = negated if negated.isidentifier() else f'"{negated}"'
    return f"not {word}" if text.startswith("not ") else word


Kind: TypeAlias = Literal["path", "rules", "order", "amounts", "choices"]


class StatedKind(Params):
    """Which kind of problem a question is."""

    # What is to be found tells the kinds apart; the words of the question often do not.
    each: ShortText
    gets: ShortText
    kind: Kind


def _shown(question: str, reply: dict[str, Any]) -> str:
    return f"Question: {question}\nAnswer: {json.dumps(reply)}"


def _found(question: str, each: str, gets: str, kind: Kind) -> str:
    return _shown(question, {"each": each, "gets": gets, "kind": kind})


_KINDS: Final = """\
You do not solve the question; you say what is to be found, and which kind of problem that is.
- path: each trip gets a route between two places, the shortest, cheapest or fastest.
- rules: each statement is true or false, by facts and if-then rules about one thing.
- order: each thing gets its place in one row, circle, queue, ranking or sequence.
- amounts: each thing gets a number, such as a quantity, an hour or a price, or whether to take it.
- choices: each thing gets one of several values, such as a person, day, room, colour, version."""

KIND_PROMPT: Final = "\n\n".join(
    (
        _KINDS,
        _found(
            "Ships go from A to B in 4 days, from B to C in 3. How do I get from A to C soonest?",
            "trip",
            "a route",
            "path",
        ),
        _found(
            "Max, Ida and Lu work in a shop from 6 to 9 July. Max is ill on the 7th. Nobody "
            "works twice in a row. Who works when?",
            "day",
            "a person",
            "choices",
        ),
        _found(
            "Cats that are hungry are loud. Loud cats are let in. Minka is a hungry cat. Is "
            "she loud, let in, asleep?",
            "statement about Minka",
            "true or false",
            "rules",
        ),
        _found(
            "Tracks: P-Q 4 km, Q-R 3 km, P-R 9 km. The shortest way from P to R through Q? Answer "
            "with the list of stations.",
            "trip",
            "a route",
            "path",
        ),
        _found(
            "The red car is parked left of the blue one. The green one is last.",
            "car",
            "its place in the row",
            "order",
        ),
        _found(
            "Three guests each ordered a soup and a dessert. The lady had no ice. The pea "
            "soup went to the one with the cake. Who had what?",
            "soup and dessert",
            "a guest",
            "choices",
        ),
        _found(
            "A box weighs 3 kg, a crate 8 kg. The lift carries 30 kg. How many of each?",
            "kind of load",
            "a number",
            "amounts",
        ),
        _found(
            "Orders above 50 euros ship free. What ships free needs no signature. Eva's order "
            "is above 50 euros. Must she sign?",
            "statement about Eva's order",
            "true or false",
            "rules",
        ),
        _found(
            "Exams in art, law and music are in halls 1 or 2. Art and law must not be in the "
            "same hall.",
            "exam",
            "a hall",
            "choices",
        ),
    )
)
"""The prompt with which a model says which kind of problem a question is."""

_TASK: Final = (
    "You do not solve the question; you write it down as a form, and a solver solves it. Go "
    "through the question from its first sentence to its last: copy each part that says what must "
    "hold into says, and write its rules. Leave no name, number or condition out, and add none."
)


def _prompt(task: str, *examples: tuple[str, dict[str, Any]]) -> str:
    return "\n\n".join((_TASK, task, *(_shown(*example) for example in examples)))


@dataclass(frozen=True, slots=True)
class StatementKind:
    """How a model states problems of one kind."""

    prompt: str
    reply_type: type[Statement]


def _says(text: str, *rules: str) -> dict[str, Any]:
    return {"says": text, "rules": [*rules]}


def _road(says: str, a: str, b: str, n: int) -> dict[str, Any]:
    return {"says": says, "a": a, "b": b, "n": n}


STATEMENT_KINDS: Final[Mapping[Kind, StatementKind]] = {
    "choices": StatementKind(
        _prompt(
            "Each of the things in a group gets one of its values; each_at_most says how often "
            "the same value may be used: 1 if all get different ones, 0 if there is no limit. "
            "Rules are conditions: a == Kim, a != Kim, a == b, a != b, a in [Kim, Lea], a == Kim "
            "implies b == Mo, and, or, not, neighbours_differ(group), count(group, Kim) <= 2, "
            "sum, and a name for some values: set == [Kim, Lea], then a in set. A part that has "
            "no condition has no rules.",
            (
                (
                    "Kim, Lea or Mo cooks on each of four evenings, E1 to E4. Not possible: Kim "
                    "on E1, E3; Lea on E4. Each cooks at most twice, never on two evenings in a "
                    "row. On E2 and E4 the cook must have a licence; Lea and Mo are licensed. Who "
                    "cooks when?"
                ),
                {
                    "groups": [
                        {
                            "group": "evenings",
                            "names": ["E1", "E2", "E3", "E4"],
                            "get": "person",
                            "values": ["Kim", "Lea", "Mo"],
                            "each_at_most": 2,
                        }
                    ],
                    "rules": [
                        _says("Kim not on E1, E3", "E1 != Kim", "E3 != Kim"),
                        _says("Lea not on E4", "E4 != Lea"),
                        _says(
                            "Each cooks at most twice",
                            "count(evenings, Kim) <= 2",
                            "count(evenings, Lea) <= 2",
                            "count(evenings, Mo) <= 2",
                        ),
                        _says(
                            "never on two evenings in a row",
                            "neighbours_differ(evenings)",
                        ),
                        _says(
                            "On E2 and E4 the cook must have a licence",
                            "E2 in licensed",
                            "E4 in licensed",
                        ),
                        _says("Lea and Mo are licensed", "licensed == [Lea, Mo]"),
                    ],
                },
            ),
            (
                (
                    "Kim, Lea and Mo each drive another car (red, blue or green) and wear another "
                    "hat (top, straw or wool). Kim drives the red car. Who wears the straw hat "
                    "drives the blue car. Who wears the wool hat does not drive the red car. Mo "
                    "has no top hat."
                ),
                {
                    "groups": [
                        {
                            "group": "cars",
                            "names": ["red", "blue", "green"],
                            "get": "person",
                            "values": ["Kim", "Lea", "Mo"],
                            "each_at_most": 1,
                        },
                        {
                            "group": "hats",
                            "names": ["top", "straw", "wool"],
                            "get": "person",
                            "values": ["Kim", "Lea", "Mo"],
                            "each_at_most": 1,
                        },
                    ],
                    "rules": [
                        _says("Kim drives the red car", "red == Kim"),
                        _says("Who wears the straw hat drives the blue car", "straw == blue"),
                        _says("wool hat does not drive the red car", "wool != red"),
                        _says("Mo has no top hat", "top != Mo"),
                    ],
                },
            ),
            (
                (
                    "Choose versions: app 1 or 2, base 5, 6 or 7, log 3 or 4. App 2 needs base 6 "
                    "or later. Log 4 does not work with base 7. We want app 2."
                ),
                {
                    "groups": [
                        {
                            "group": "apps",
                            "names": ["app"],
                            "get": "version",
                            "values": [1, 2],
                            "each_at_most": 0,
                        },
                        {
                            "group": "bases",
                            "names": ["base"],
                            "get": "version",
                            "values": [5, 6, 7],
                            "each_at_most": 0,
                        },
                        {
                            "group": "logs",
                            "names": ["log"],
                            "get": "version",
                            "values": [3, 4],
                            "each_at_most": 0,
                        },
                    ],
                    "rules": [
                        _says("App 2 needs base 6 or later", "app == 2 implies base >= 6"),
                        _says("Log 4 not with base 7", "log == 4 implies base != 7"),
                        _says("We want app 2", "app == 2"),
                    ],
                },
            ),
        ),
        StatedChoices,
    ),
    "amounts": StatementKind(
        _prompt(
            "Each amount is a whole number from least to most; what is taken or left is from 0 to "
            "1. Rules are conditions: a + b <= 20, 3 * a + 2 * b >= 12, a == 2 * b, a != b, "
            "a >= 1 implies b == 0, and, or, not, all_different(a, b). The goal is minimize or "
            "maximize of an amount such as 5 * a + b or max(a, b); without one it is none of 0.",
            (
                (
                    "A van carries at most 20 kg. A lamp has 5 kg and brings 8 euros, a desk 12 "
                    "kg and 15 euros, a rug 9 kg and 11 euros. With the desk the lamp must be "
                    "taken too. What brings the most?"
                ),
                {
                    "amounts": [{"names": ["lamp", "desk", "rug"], "least": 0, "most": 1}],
                    "rules": [
                        _says("at most 20 kg", "5 * lamp + 12 * desk + 9 * rug <= 20"),
                        _says("With the desk the lamp", "desk == 1 implies lamp == 1"),
                    ],
                    "goal": "maximize",
                    "of": "8 * lamp + 15 * desk + 11 * rug",
                },
            ),
            (
                (
                    "Digging takes 3 hours, wiring 2 hours, paving 4 hours. Paving starts after "
                    "digging and wiring have ended. Digging and wiring share a machine, so not at "
                    "the same time. When does each start, so that all is done as early as "
                    "possible?"
                ),
                {
                    "amounts": [{"names": ["dig", "wire", "pave"], "least": 0, "most": 20}],
                    "rules": [
                        _says("Paving after digging", "pave >= dig + 3"),
                        _says("Paving after wiring", "pave >= wire + 2"),
                        _says("not at the same time", "wire >= dig + 3 or dig >= wire + 2"),
                    ],
                    "goal": "minimize",
                    "of": "max(dig + 3, wire + 2, pave + 4)",
                },
            ),
        ),
        StatedAmounts,
    ),
    "order": StatementKind(
        _prompt(
            "Each thing stands for its place, from 1; around a table or in a ring circle is true. "
            "Rules are conditions: before(a, b), after(a, b), next_to(a, b), not next_to(a, b), "
            "right_after(a, b) (a is directly after b), opposite(a, b), a == 1, a != 3, a < 3, "
            "and, or, not, implies.",
            (
                (
                    "Six friends, Pia, Quin, Rob, Sue, Tom and Uma, sit at a round table. Pia has "
                    "chair 1. Quin is a neighbour of Rob, but not of Sue. Sue is directly after "
                    "Tom. Uma is across from Pia."
                ),
                {
                    "things": ["Pia", "Quin", "Rob", "Sue", "Tom", "Uma"],
                    "circle": True,
                    "rules": [
                        _says("Pia has chair 1", "Pia == 1"),
                        _says("Quin is a neighbour of Rob", "next_to(Quin, Rob)"),
                        _says("Quin is not a neighbour of Sue", "not next_to(Quin, Sue)"),
                        _says("Sue is directly after Tom", "right_after(Sue, Tom)"),
                        _says("Uma is across from Pia", "opposite(Uma, Pia)"),
                    ],
                },
            ),
            (
                (
                    "To publish a book: write, edit, print, sell. Editing needs what was written; "
                    "printing comes right after editing. Selling is not first."
                ),
                {
                    "things": ["write", "edit", "print", "sell"],
                    "circle": False,
                    "rules": [
                        _says("Editing needs what was written", "before(write, edit)"),
                        _says("printing comes right after editing", "right_after(print, edit)"),
                        _says("Selling is not first", "sell != 1"),
                    ],
                },
            ),
        ),
        StatedOrder,
    ),
    "path": StatementKind(
        _prompt(
            "Copy every connection of the question into roads, in its order: its two places a and "
            "b, and n, its length, time or cost. one_way is true if connections have a direction. "
            "via has places that the way must pass through, avoid those that it must not.",
            (
                (
                    "Roads, in both directions: Pine-Yew 3 km, Rue-Box 2 km, Oak-Yew 9 km, Elk- "
                    "Pine 7 km, Oak-Pine 4 km, Yew-Rue 5 km. The shortest way from Oak to Box? "
                    "Answer with the list of places."
                ),
                {
                    "roads": [
                        _road("Pine-Yew 3 km", "Pine", "Yew", 3),
                        _road("Rue-Box 2 km", "Rue", "Box", 2),
                        _road("Oak-Yew 9 km", "Oak", "Yew", 9),
                        _road("Elk-Pine 7 km", "Elk", "Pine", 7),
                        _road("Oak-Pine 4 km", "Oak", "Pine", 4),
                        _road("Yew-Rue 5 km", "Yew", "Rue", 5),
                    ],
                    "one_way": False,
                    "start": "Oak",
                    "end": "Box",
                    "via": [],
                    "avoid": [],
                },
            ),
            (
                (
                    "A parcel can go from the store to the hub in 5 hours, from the hub to town "
                    "in 6, from the store to the port in 2 and from the port to the hub in 1. The "
                    "fastest route from the store to town that stops at the port?"
                ),
                {
                    "roads": [
                        _road("from the store to the hub in 5 hours", "store", "hub", 5),
                        _road("from the hub to town in 6", "hub", "town", 6),
                        _road("from the store to the port in 2", "store", "port", 2),
                        _road("from the port to the hub in 1", "port", "hub", 1),
                    ],
                    "one_way": True,
                    "start": "store",
                    "end": "town",
                    "via": ["port"],
                    "avoid": [],
                },
            ),
        ),
        StatedPath,
    ),
    "rules": StatementKind(
        _prompt(
            "about is the thing or person in question, facts are what is said of it. Each rule "
            "has in when all that must be true of it, and in then what is true of it as a result; "
            "not before a word denies it. ask has what may follow.",
            (
                (
                    "A bird is grey and small. What is grey and small is shy. What is shy is "
                    "quick. Big things are slow. It is rare if it is quick and wild. Red ones are "
                    "wild. Which are true of the bird: quick, slow, rare?"
                ),
                {
                    "about": "bird",
                    "facts": ["grey", "small"],
                    "rules": [
                        {
                            "says": "What is grey and small is shy",
                            "when": ["grey", "small"],
                            "then": "shy",
                        },
                        {"says": "What is shy is quick", "when": ["shy"], "then": "quick"},
                        {"says": "Big things are slow", "when": ["big"], "then": "slow"},
                        {
                            "says": "It is rare if it is quick and wild",
                            "when": ["quick", "wild"],
                            "then": "rare",
                        },
                        {"says": "Red ones are wild", "when": ["red"], "then": "wild"},
                    ],
                    "ask": ["quick", "slow", "rare"],
                },
            ),
        ),
        StatedRuleBook,
    ),
}
"""By kind: the prompt with worked examples, and the shape of the statement."""


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
