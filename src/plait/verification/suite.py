"""A suite of cases, as typed and validated values."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from plait._support.durations import checked_seconds
from plait.traces.messages.message import Message

EvaluationMode = Literal["template_only", "template_and_rubric", "rubric_only"]
FieldType = Literal["text", "number", "boolean", "list"]


Texts = Annotated[
    list[str],
    BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
"""One text, or several."""


Command = Annotated[
    list[str],
    BeforeValidator(lambda value: shlex.split(value) if isinstance(value, str) else value),
    Field(min_length=1),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
"""A program and its arguments: one text, or a list."""


class _Value(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Limits(_Value):
    """The limits of one run of a case."""

    turns: int = Field(default=25, ge=1)
    """How often the model may answer."""
    seconds: Annotated[
        float,
        BeforeValidator(lambda value: checked_seconds(value, "seconds")),
        WithJsonSchema({"type": "number", "exclusiveMinimum": 0}),
    ] = 180.0


class TemplateField(_Value):
    """A field of the answer, which a judge reads from the agent's text."""

    name: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    type: FieldType = "text"
    description: str = ""
    """What the judge looks for."""
    expected: Any
    tolerance: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """How far a number may be off."""
    regex: str | None = None
    """The agent's text must contain a match of this, besides."""


class Trait(_Value):
    """A quality of an answer, scored by a judge or a regular expression."""

    name: str
    description: str = ""
    """What the judge decides; it answers yes or no."""
    regex: str | None = None
    """Found in the answer, the trait is present; no judge is needed."""
    call: str | None = Field(default=None, pattern=r"^[\w.]+:\w+$")
    """A Python function, `module:function`, that takes the text and returns whether the trait is
    present; no judge is needed."""
    wanted: bool = True
    """Whether the trait should be present."""


class SetupCall(_Value):
    """A tool to call."""

    server: str
    tool: str
    arguments: dict[str, Any] = Field(default_factory=dict)


class SetupStep(_Value):
    """One step that prepares the world of a run: a program, or a call."""

    run: Command | None = None
    """A program with its arguments, run in the working folder, without a shell."""
    call: SetupCall | None = None
    """A tool of the servers to call."""

    @model_validator(mode="after")
    def _check(self) -> SetupStep:
        if (self.run is None) == (self.call is None):
            raise ValueError("a step of the setup is `run`, or `call`")
        return self


class CaseSettings(_Value):
    """What a case, and the defaults of a suite, may set."""

    model: Texts = Field(default_factory=list)
    """The models, as `plait run --model` takes them; none is the one that is found."""
    engine: Texts = Field(default_factory=list)
    """The engines; none is the usual one of each model."""
    judge: Texts = Field(default_factory=list)
    """The models that read templates and judge traits, by default that of the case; several of
    them judge the same answers."""
    system: str | None = None
    """The system prompt."""
    servers: dict[str, Any] | str | None = None
    """The servers, as in mcp.json, or the path of such a file; `{workdir}` is a folder that is new
    for each run, and `{seed}` the seed of the run."""
    scope: Literal["case", "suite"] = "case"
    """Whether each run has servers of its own, or the runs of a model share them, and a folder,
    until the suite ends."""
    files: dict[str, str] = Field(default_factory=dict)
    """Files to put into the working folder, by their path there: paths beside the suite."""
    setup: list[SetupStep] = Field(default_factory=list)
    """Steps that prepare a world; those of the defaults come first. Programs run before the
    servers start, and tools are called before the agent runs."""
    seed: int | None = None
    """The seed of the first run of a case, for models that take one; each repeat adds one."""
    prices: dict[str, dict[str, float]] = Field(default_factory=dict)
    """US dollars for a million tokens, by model: `input`, `output`, `cache_read`,
    `cache_creation`; by default those of `genai-prices`."""
    repeat: int = Field(default=1, ge=1, le=10_000)
    limits: Limits = Field(default_factory=Limits)
    tags: Texts = Field(default_factory=list)
    evaluation_mode: EvaluationMode = "template_and_rubric"
    abstention_enabled: bool = False
    """Whether an answer that declines to answer fails without a look at its template."""
    sufficiency_enabled: bool = False
    """Whether an answer that lacks information for a field of the template fails at once."""
    embedding_check_enabled: bool = False
    """Whether a text that means the same as the expected one passes: see the extra `embeddings`."""
    embedding_check_threshold: float = Field(default=0.85, ge=0, le=1)
    deep_judgment_enabled: bool = False
    """Whether the judge must quote the answer for each field that it reads."""
    deep_judgment_rubric_enabled: bool = False
    """Whether the judge must quote the text for each trait that it finds."""
    use_full_trace_for_template: bool = False
    """Whether the judge reads the whole trace, not only the answer."""
    use_full_trace_for_rubric: bool = True


class Case(CaseSettings):
    """One question, and what its answer must fulfil."""

    name: str = Field(min_length=1, max_length=200)
    question: str | None = None
    conversation: list[dict[str, Any]] = Field(default_factory=list)
    """Messages with `role` and `content`, in place of a question."""
    checks: list[dict[str, Any]] = Field(default_factory=list)
    """Checks that need no judge, each with its name as the only key."""
    template: list[TemplateField] = Field(default_factory=list)
    rubric: list[Trait] = Field(default_factory=list)

    @model_validator(mode="after")
    def _check(self) -> Case:
        if (self.question is None) == (not self.conversation):
            raise ValueError("a case has a question, or a conversation")
        if not (self.checks or self.template or self.rubric):
            raise ValueError("a case has checks, a template or a rubric")
        if self.files and self.scope == "suite":
            raise ValueError("files need `scope: case`: shared servers have one folder for all")
        names = [field.name for field in self.template]
        if len(set(names)) < len(names):
            raise ValueError("the fields of a template have different names")
        return self

    @property
    def messages(self) -> list[Message]:
        """The input of the agent."""
        if self.question is not None:
            return [Message.user(self.question)]
        return [Message.from_dict(message) for message in self.conversation]


Cap = Annotated[int, Field(ge=1, le=10_000)]


class Caps(_Value):
    """How many runs there may be at once; the options of the command line win."""

    total: Cap | None = None
    per_model: Cap | None = None
    per_server: Cap | None = None
    models: dict[str, Cap] = Field(default_factory=dict)
    """By the name of a model, as the suite spells it."""
    servers: dict[str, Cap] = Field(default_factory=dict)


class Suite(_Value):
    """Cases that are run and reported together."""

    name: str = "suite"
    cases: tuple[Case, ...]
    caps: Caps = Field(default_factory=Caps)
    folder: Path = Path()
    """The folder of relative paths."""

    @model_validator(mode="after")
    def _check(self) -> Suite:
        seen: set[str] = set()
        for case in self.cases:
            if case.name in seen:
                raise ValueError(f"two cases have the name {case.name!r}")
            seen.add(case.name)
        return self
