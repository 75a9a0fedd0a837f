"""Problems and answers as JSON: the models, the schema, and an example of each form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import PydanticCustomError

from plait._support.suggestions import nearest_names, suggest_names
from plait.reasoning.fields import AnyText, Params, Text

MAX_PROBLEM_CHARS: Final = 1_000_000
"""A longer problem is not read: it was made by a program, which can call a solver itself."""
MAX_VARIABLES: Final = 2_000
MAX_CONSTRAINTS: Final = 5_000
MAX_VALUES: Final = 1_000
MAX_ROADS: Final = 300
MAX_NAME_CHARS: Final = 60
MAX_NUMBER: Final = 10**12
MAX_PROBLEMS: Final = 5
"""How many mistakes an answer names."""


def _check_name(name: str) -> str:
    if not name.strip() or len(name) > MAX_NAME_CHARS or not name.isprintable() or '"' in name:
        problem = 'a name has 1 to {most} characters, and no "'
        raise PydanticCustomError("name", problem, {"most": MAX_NAME_CHARS})
    return name.strip()


def _check_names(names: str) -> str:
    return ", ".join(map(_check_name, names.split(",")))


Name = Annotated[str, AfterValidator(_check_name)]
OneOrMoreNames = Annotated[str, AfterValidator(_check_names)]
Whole = Annotated[int, Field(ge=-MAX_NUMBER, le=MAX_NUMBER)]
Length = Annotated[float, Field(ge=0, le=MAX_NUMBER, allow_inf_nan=False)]
Road = Annotated[tuple[Name, Name, Length], Field(strict=False)]
"""JSON has no tuples, so a list is one."""


class Constraint(Params):
    """Something that must hold."""

    rule: Text = Field(description="A condition, such as `ann != ben`.")
    name: Name | None = Field(default=None, description="How answers name it; else c1, c2, ….")
    says: AnyText | None = Field(default=None, description="The sentence that it came from.")


def _rule(value: object) -> object:
    return {"rule": value} if isinstance(value, str) else value


Rule = Annotated[Constraint, BeforeValidator(_rule, json_schema_input_type=Constraint | str)]
Rules = Annotated[list[Rule], Field(max_length=MAX_CONSTRAINTS)]
Names = Annotated[list[Name], Field(max_length=MAX_VARIABLES)]


class Range(Params):
    """Whole numbers from `min` to `max`."""

    min: Whole
    max: Whole


ValueList = Annotated[list[Name | Whole], Field(min_length=1, max_length=MAX_VALUES)]
VariableType: TypeAlias = Literal["boolean"] | Range | ValueList


class WithObjective(Params):
    """A problem with constraints, of whose solutions one may be the best."""

    constraints: Rules = Field(default_factory=list[Constraint])
    minimize: Text | None = Field(default=None, description="An amount, such as `3 * a + b`.")
    maximize: Text | None = None


class VariablesProblem(WithObjective):
    """Find values of variables for which all constraints hold."""

    form: Literal["variables"] = "variables"
    variables: Annotated[
        dict[OneOrMoreNames, VariableType], Field(min_length=1, max_length=MAX_VARIABLES)
    ] = Field(
        description="By name, or by several names with commas: a list of values, a range, or "
        "`boolean`."
    )
    lists: dict[Name, Names] = Field(
        default_factory=dict[str, list[str]], description="Names for several variables."
    )


class OrderProblem(WithObjective):
    """Put things in a row, or around a table; in constraints each is its place, from 1."""

    form: Literal["order"] = "order"
    things: Annotated[Names, Field(min_length=1)]
    circle: bool = Field(default=False, description="The last place is next to the first.")


class PathProblem(Params):
    """Find the shortest path between two places; it visits none twice."""

    form: Literal["path"] = "path"
    roads: Annotated[list[Road], Field(min_length=1, max_length=MAX_ROADS)] = Field(
        description="Two places and the length of the road between them."
    )
    start: Name
    end: Name
    via: Names = Field(default_factory=list[str], description="Places to pass through.")
    avoid: Names = Field(default_factory=list[str], description="Places to stay away from.")
    one_way: bool = Field(default=False, description="Roads lead from the first place only.")


class RulesProblem(Params):
    """Find out what follows from facts and rules; every name in them is true or false."""

    form: Literal["rules"] = "rules"
    facts: Rules = Field(default_factory=list[Constraint], description="What is true.")
    rules: Rules = Field(description="Such as `wet and cold implies ice`.")
    ask: Annotated[list[Text], Field(min_length=1, max_length=MAX_VALUES)] = Field(
        description="What may follow, may be excluded, or may be open."
    )


Problem: TypeAlias = VariablesProblem | OrderProblem | PathProblem | RulesProblem

FORMS: Final[Mapping[str, type[Problem]]] = {
    "variables": VariablesProblem,
    "order": OrderProblem,
    "path": PathProblem,
    "rules": RulesProblem,
}

_PROBLEM: Final[TypeAdapter[Problem]] = TypeAdapter(Annotated[Problem, Field(discriminator="form")])


def problem_schema() -> dict[str, Any]:
    """Return the JSON schema of a problem."""
    return _PROBLEM.json_schema()


EXAMPLES: Final[Mapping[str, Mapping[str, Any]]] = {
    "variables": {
        "form": "variables",
        "variables": {"mon, tue, wed": ["Ann", "Ben", "Cleo"], "extra": {"min": 0, "max": 9}},
        "lists": {"days": ["mon", "tue", "wed"]},
        "constraints": [
            {"name": "away", "rule": "tue != Ann", "says": "Ann is away on Tuesday."},
            {"name": "fair", "rule": "all_different(days)", "says": "Nobody works twice."},
            "mon == Ben implies extra >= 2",
        ],
        "minimize": "extra + 2 * count(days, Cleo)",
    },
    "order": {
        "form": "order",
        "things": ["plan", "build", "test", "ship"],
        "constraints": ["before(plan, build)", "right_after(test, build)", "ship == 4"],
    },
    "path": {
        "form": "path",
        "roads": [["Ash", "Bree", 4], ["Bree", "Cove", 3], ["Ash", "Cove", 9]],
        "start": "Ash",
        "end": "Cove",
        "via": ["Bree"],
    },
    "rules": {
        "form": "rules",
        "facts": ["wet", "cold"],
        "rules": [
            {"name": "frost", "rule": "wet and cold implies ice"},
            "ice implies not safe",
        ],
        "ask": ["ice", "safe", "dark"],
    },
}
"""A problem of each form."""


class Mistake(BaseModel):
    """What is malformed in a problem."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    place: str
    problem: str
    nearest: str = ""
    """The nearest valid form."""


class Named(BaseModel):
    """A constraint as an answer names it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    rule: str
    says: str = ""


Verdict: TypeAlias = Literal["follows", "excluded", "open", "unknown"]


class Conclusion(BaseModel):
    """What is known about something that was asked."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    asked: str
    verdict: Verdict
    because: list[str] = Field(default_factory=list[str])
    """The facts and rules of which it follows, none of them superfluous."""


Status: TypeAlias = Literal[
    "one", "several", "none", "best", "undecided", "malformed", "holds", "fails"
]

Solution: TypeAlias = dict[str, Any]


class Answer(BaseModel):
    """The answer to a problem; fields that do not apply are left empty."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    status: Status
    text: str
    """The answer in a sentence or a few."""
    solution: Solution | None = None
    other: Solution | None = None
    """A second solution, if there are several; with an objective, one as good."""
    tell_apart: str = ""
    """A constraint that holds in `solution`, and not in `other`."""
    value: float | int | None = None
    """What is minimized or maximized, in `solution`."""
    bound: float | int | None = None
    """No solution is better than this; equal to `value` if `solution` is the best."""
    conflict: list[Named] = Field(default_factory=list[Named])
    """Constraints that contradict each other, or those that a proposed answer violates."""
    is_minimal: bool = True
    """Whether without any one of them the others would not contradict each other."""
    conclusions: list[Conclusion] = Field(default_factory=list[Conclusion])
    mistakes: list[Mistake] = Field(default_factory=list[Mistake])

    def data(self) -> dict[str, Any]:
        """Return the fields that are filled, as JSON data."""
        filled = self.model_dump(mode="json", exclude_defaults=True)
        return {"status": self.status, **filled}


def read_problem(problem: Problem | Mapping[str, Any] | str) -> Problem | Answer:
    """Read a problem; the answer to one that is malformed says where."""
    if isinstance(problem, Params):
        return problem
    data: object = problem
    if isinstance(problem, str):
        if len(problem) > MAX_PROBLEM_CHARS:
            text = f"a problem has at most {MAX_PROBLEM_CHARS} characters"
            return malformed([Mistake(place="the problem", problem=text)])
        try:
            data = json.loads(problem)
        except (ValueError, RecursionError) as error:
            text = f"this is not JSON: {str(error)[:200]}"
            mistake = Mistake(place="the problem", problem=text, nearest=_example("variables"))
            return malformed([mistake])
    if not isinstance(data, Mapping):
        mistake = Mistake(
            place="the problem", problem="must be an object", nearest=_example("variables")
        )
        return malformed([mistake])
    fields = dict(cast("Mapping[str, object]", data))
    form = fields.setdefault("form", _likely_form(fields))
    if not isinstance(form, str) or form not in FORMS:
        nearest = suggest_names(str(form)[:MAX_NAME_CHARS], FORMS)
        return malformed([Mistake(place="form", problem="is not known", nearest=nearest)])
    try:
        return FORMS[form].model_validate(fields)
    except ValidationError as error:
        found = [_mistake(form, one) for one in error.errors(include_url=False)]
        # Of the alternatives of a field, the one that fits best fails the deepest.
        places = [one.place for one in found]
        deepest = [
            one
            for one in found
            if not any(place.startswith((f"{one.place}.", f"{one.place}[")) for place in places)
        ]
        return malformed(deepest)
    except RecursionError:
        return malformed([Mistake(place="the problem", problem="is nested too deeply")])


def _likely_form(fields: Mapping[str, object]) -> str:
    for form, name in (("path", "roads"), ("order", "things"), ("rules", "ask")):
        if name in fields:
            return form
    return "variables"


def _mistake(form: str, error: Any) -> Mistake:
    """Describe what pydantic found; the nearest valid form is that of the example."""
    place: tuple[str | int, ...] = error["loc"]
    fields = FORMS[form].model_fields
    name = str(place[0]) if place else ""
    nearest = _example(form, name)
    match error["type"]:
        case "extra_forbidden":
            problem = "is not a field of this form"
            known = fields if len(place) == 1 else Constraint.model_fields
            close = nearest_names(str(place[-1]), known)
            nearest = f'"{close[0]}"' if close else ", ".join(known)
        case "missing":
            problem = "is missing"
        case "too_long":
            problem = f"has more than {error['ctx']['max_length']} items"
            nearest = ""
        case _:
            problem = str(error["msg"])
    # Names of alternatives in a union are no part of the place.
    kept = [one for one in place if not (isinstance(one, str) and _is_schema_name(one))]
    parts = (f"[{one}]" if isinstance(one, int) else f".{one}" for one in kept)
    shown = "".join(parts).lstrip(".")[:200]
    return Mistake(place=shown or "the problem", problem=problem[:200], nearest=nearest)


def _is_schema_name(text: str) -> bool:
    return text in ("Range", "literal['boolean']") or "[" in text


def _example(form: str, field: str = "") -> str:
    example = EXAMPLES[form]
    shown: object = {field: example[field]} if field in example else example
    return json.dumps(shown, ensure_ascii=False)


def malformed(mistakes: list[Mistake]) -> Answer:
    """Return the answer to a malformed problem."""
    first = mistakes[0]
    text = f"{first.place}: {first.problem}"
    if first.nearest:
        text += f". Nearest valid form: {first.nearest}"
    return Answer(status="malformed", text=text, mistakes=mistakes[:MAX_PROBLEMS])
