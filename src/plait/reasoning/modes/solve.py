"""Solving: a problem that is stated exactly, its answer, and proposed answers that are checked."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from pydantic import Field

from plait.errors import RefusedError, ReplyError
from plait.reasoning.arguments import invalid_argument, session_error
from plait.reasoning.call_context import CallContext, Outcome, Place, touched
from plait.reasoning.fields import Id, Integer, Number, Params, Text, clamped, optional
from plait.reasoning.results import Move, Result, move, unless_none
from plait.reasoning.solving.expressions import FUNCTIONS
from plait.reasoning.solving.forms import MistakesError, core_of
from plait.reasoning.solving.problem import (
    EXAMPLES,
    Answer,
    Conclusion,
    Mistake,
    Named,
    Problem,
    Solution,
    read_problem,
)
from plait.reasoning.solving.run import DEFAULT_SECONDS, MAX_SECONDS, asolve, check_solution
from plait.reasoning.solving.statement import (
    STATEMENT_KINDS,
    WITH_RULES,
    StatedAmounts,
    StatedChoices,
    StatedKind,
    StatedOrder,
    StatedParts,
    StatedRule,
    Statement,
    proposal_type,
)
from plait.reasoning.values import Changes, Session, Thought

MAX_SAMPLES: Final = 20
MAX_SAMPLE_TOKENS: Final = 20_000
"""What one call may cost: drawing on does not help where so many answers failed."""
SCHEMA_URI: Final = "reasoning://solve/schema"
"""The resource with the schema of problems and an example of each form."""

_PROPOSE: Final = (
    "You answer a question. Think in a few steps, then give the solution as a JSON object. "
    "Every constraint must hold."
)

ProblemArgument: TypeAlias = dict[str, Any]


class SolveParams(Params):
    """Arguments of `reasoning_solve`."""

    action: Literal["solve", "check", "sample", "help"] = Field(
        default="solve",
        description="solve: answer a problem. check: say whether a solution holds, or which "
        "constraints fail. sample: draw solutions until one holds. help: the forms.",
    )
    problem: ProblemArgument | None = optional(
        "{variables, constraints, minimize or maximize}, or the form order, path or rules; see "
        f"action=help or {SCHEMA_URI}. check and sample use the last one without it."
    )
    content: Text | None = optional("The question in words; it is kept beside the problem.")
    session_id: Id | None = optional("The session to go on with; left out, a new one begins.")
    branch_id: Id | None = optional("The branch to put it on: branches may state variants.")
    solution: dict[str, Any] | None = optional("check: the solution that is proposed.")
    solutions: list[dict[str, Any]] | None = optional("sample: your own, with no model.")
    samples: Integer = clamped(1, MAX_SAMPLES, "sample: how many.", default=5)
    temperature: Number = clamped(0, 2, "sample", default=0.8)
    max_tokens: Integer = clamped(
        100, MAX_SAMPLE_TOKENS, "sample: what the model may write in all.", default=2000
    )
    seconds: Number = clamped(
        0.1, MAX_SECONDS, "How long the solver may take.", default=DEFAULT_SECONDS
    )


class SampleReport(Params):
    """How solutions were drawn."""

    drawn: int
    unreadable: int
    written_tokens: int
    share: float
    """Of the solutions that are equal to the chosen one."""


class SolveResult(Result):
    """An answer that says what to do next."""

    status: str = Field(
        description="one, several, none, best, undecided, malformed; check and sample: holds, "
        "fails; help."
    )
    text: str = Field(description="The answer in sentences.")
    session_id: str | None = unless_none()
    thought_id: str | None = unless_none("The thought that states the problem.")
    answer_id: str | None = unless_none("The thought that is the answer.")
    branch_id: str | None = unless_none()
    solution: Solution | None = unless_none()
    other: Solution | None = unless_none("A second solution.")
    tell_apart: str | None = unless_none("Holds in `solution`, and not in `other`.")
    value: float | int | None = unless_none("What is minimized or maximized.")
    bound: float | int | None = unless_none("No solution is better.")
    conflict: list[Named] | None = unless_none("Constraints that contradict each other, or fail.")
    is_minimal: bool | None = unless_none("Whether each of these is needed for it.")
    conclusions: list[Conclusion] | None = unless_none()
    mistakes: list[Mistake] | None = unless_none("What is malformed, and the nearest valid form.")
    question: str | None = unless_none("What a model was asked to state.")
    statement: dict[str, Any] | None = unless_none("What it understood.")
    was_repaired: bool | None = unless_none("Whether its first statement was malformed.")
    sampled: dict[str, Any] | None = unless_none("How many were drawn, and the share of this one.")
    forms: dict[str, Any] | None = unless_none("help: an example of each form.")
    functions: list[str] | None = unless_none("help: functions of expressions.")


async def solve(params: SolveParams, call: CallContext) -> Outcome[SolveResult]:
    """State a problem of choices and constraints, and have a solver answer it exactly.

    For schedules, assignments, seating, configurations, budgets, routes, orders and rule books. The
    answer is one solution, several, the best, or which constraints contradict each other.
    """
    if params.action == "help":
        text = (
            "A problem has variables and constraints, or is of the form order, path or rules. "
            "Constraints are conditions of + - * // %, == != < <= > >=, and, or, not, implies, "
            "iff, in [a, b], and functions. Names with other characters are in quotes. Each may "
            f'be {{"name", "rule", "says"}}: the sentence it came from. Schema: {SCHEMA_URI}'
        )
        functions = [*FUNCTIONS.values()]
        result = SolveResult(status="help", text=text, forms={**EXAMPLES}, functions=functions)
        return Outcome(result)
    session = await call.new_or_open_session(params.session_id, "solve")
    place = await call.place(session, params.branch_id)
    update: dict[str, Any] = {}
    data, stated = params.problem, None
    if data is None and params.action != "solve":
        stated = await _last_statement(call, session, place)
        data = (stated.metadata or {})["problem"] if stated else None
    if data is None:
        if params.content is None:
            raise invalid_argument("problem", "is required, or content, the question in words")
        data, was_repaired = await _stated(params.content, call, session)
        update = {
            "question": params.content,
            "statement": data,
            "was_repaired": was_repaired or None,
        }
    problem = read_problem(data)
    if isinstance(problem, Answer):
        answer = problem
    elif params.action == "check":
        if params.solution is None:
            raise invalid_argument("solution", "is required: the solution to check")
        answer = await _by_solver(check_solution(problem, params.solution, seconds=params.seconds))
    elif params.action == "sample":
        question = params.content or (stated.content if stated else "")
        answer, report = await _sampled(params, call, session, problem, question)
        update["sampled"] = report.model_dump()
    else:
        answer = await _by_solver(asolve(problem, seconds=params.seconds))
    filled = answer.data()
    result = SolveResult(**{**filled, **update})
    # What a model wrote is kept, also where it is of no use.
    if answer.status == "malformed" and "statement" not in update:
        why = "correct what is malformed"
        again = move("solve", why, params.session_id, action=params.action)
        return Outcome(result.model_copy(update={"next": [again]}))
    kept: list[Thought] = []
    if stated is None:
        content = params.content or _headline(data)
        metadata = {"problem": data, "stated_by": "model" if "statement" in update else "caller"}
        stated = Thought(
            session_id=session.id,
            content=content,
            is_judged=False,
            mode="solve",
            parent_id=place.tip_id,
            branch_id=place.branch_id,
            metadata=metadata,
        )
        kept.append(stated)
    answered = Thought(
        session_id=session.id,
        content=answer.text,
        is_judged=False,
        mode="solve",
        parent_id=kept[0].id if kept else place.tip_id,
        branch_id=place.branch_id,
        metadata={"answer": filled, "action": params.action},
    )
    kept.append(answered)
    result = result.model_copy(
        update={
            "session_id": session.id,
            "thought_id": stated.id,
            "answer_id": answered.id,
            "branch_id": place.branch_id,
            "next": _moves(answer, session.id),
        }
    )
    return Outcome(result, Changes(session=touched(session), thoughts=(*kept,)))


async def _by_solver(work: Awaitable[Answer]) -> Answer:
    """Return an answer of the solver, or refuse the call where none is installed."""
    try:
        return await work
    except ImportError as error:
        raise RefusedError(str(error)) from None


def _moves(answer: Answer, session_id: str) -> list[Move]:
    conclude = move("session_conclude", "if the question is answered", session_id)
    match answer.status:
        case "several":
            why = f"state it again with one more constraint, such as {answer.tell_apart}"
            return [move("solve", why, session_id), conclude]
        case "none" | "fails":
            why = "state it again without one of the constraints that it names"
            return [move("solve", why, session_id)]
        case "malformed":
            return [move("solve", "state the problem yourself", session_id)]
        case "undecided":
            return [move("solve", "give it more time, or state less", session_id)]
        case _:
            return [conclude]


_COUNTED: Final = ("variables", "things", "roads", "facts", "constraints", "rules")


def _headline(data: Mapping[str, Any]) -> str:
    """Describe a problem that nobody put in words."""
    form = data.get("form", "variables")
    sizes = [f"{len(data[name])} {name}" for name in _COUNTED if data.get(name)]
    return f"A problem ({form}): {', '.join(sizes)}"


async def _last_statement(call: CallContext, session: Session, place: Place) -> Thought | None:
    """Return the last problem that was stated on the branch, or else in the session."""
    thoughts = await call.store.get_session_thoughts(session.id)
    problems = [one for one in thoughts if "problem" in (one.metadata or {})]
    on_branch = [one for one in problems if one.branch_id == place.branch_id]
    return (on_branch or problems or [None])[-1]


async def _stated(
    question: str, call: CallContext, session: Session
) -> tuple[dict[str, Any], bool]:
    """Have the model say which kind of problem it is, and state it; what is malformed is sent back.

    A problem that contradicts itself is not: the model would drop what the question says.
    """
    shape = json.dumps(EXAMPLES["variables"], ensure_ascii=False)
    user = f"Question: {question}\nAnswer:"
    chosen = await call.ask(
        "solve",
        user,
        StatedKind,
        session=session,
        parameter="problem",
        shape=f"{shape} (action=help has the other forms)",
    )
    kind = STATEMENT_KINDS[chosen.kind]
    reply = await call.ask("solve", user, kind.reply_type, session=session, system=kind.prompt)
    if (mistakes := _mistakes_in(reply)) is None:
        return reply.data(), False
    last = f"Question: {question}\nThe last answer was malformed. {mistakes}\n"
    last += f"It was: {reply.model_dump_json()}\n"
    if isinstance(reply, WITH_RULES):
        rules = [*reply.rules]
        wrong = {at for at, rule in enumerate(rules) if _mistakes_in(_with_rules(reply, [rule]))}
        if _mistakes_in(_with_rules(reply, [])) is None and len(wrong) * 2 <= len(rules):
            parts = "; ".join(rules[at].says for at in sorted(wrong))
            again = (
                f"{last}Write only these parts again, with rules that are valid: {parts}\nAnswer:"
            )
            mended = await call.ask(
                "solve", again, StatedParts, session=session, system=kind.prompt
            )
            kept = [rule for at, rule in enumerate(rules) if at not in wrong]
            return _with_rules(reply, [*kept, *mended.rules]).data(), True
        # Where hardly a rule is valid, the question was of another kind, mostly of this one.
        kind = STATEMENT_KINDS["choices"]
        if not isinstance(reply, kind.reply_type):
            last = f"Question: {question}\n"
    reply = await call.ask(
        "solve", f"{last}Answer:", kind.reply_type, session=session, system=kind.prompt
    )
    return reply.data(), True


def _with_rules(
    stated: StatedChoices | StatedAmounts | StatedOrder, rules: list[StatedRule]
) -> StatedChoices | StatedAmounts | StatedOrder:
    return stated.model_copy(update={"rules": rules})


def _mistakes_in(reply: Statement) -> str | None:
    """Return what is malformed in a statement, which is short enough to be read here."""
    problem = read_problem(reply.data())
    if isinstance(problem, Answer):
        mistakes = problem.mistakes
    else:
        try:
            core_of(problem)
        except MistakesError as error:
            mistakes = error.mistakes
        else:
            return None
    return " ".join(f"{one.place}: {one.problem}. Valid: {one.nearest}." for one in mistakes)


async def _sampled(
    params: SolveParams, call: CallContext, session: Session, problem: Problem, question: str
) -> tuple[Answer, SampleReport]:
    """Draw solutions until one holds; else the most frequent one counts, with what fails in it."""
    if call.is_host and params.solutions is None:
        raise RefusedError(
            "Input needed: solutions - No model is connected (backend: host), so you propose "
            "solutions yourself. Call again with the same arguments and solutions=[{…}, …]"
        )
    drawn: list[Solution] = []
    checks: dict[str, Answer] = {}
    unreadable = written = 0
    given = params.solutions
    count = params.samples if given is None else len(given)
    for number in range(count):
        if given is not None:
            solution = given[number]
        elif written >= params.max_tokens:
            break
        else:
            try:
                solution, tokens = await _proposal(
                    params, call, session, problem, question, number, params.max_tokens - written
                )
            except ReplyError:
                unreadable += 1
                continue
            written += tokens
        drawn.append(solution)
        key = json.dumps(solution, sort_keys=True)
        if key not in checks:
            checking = check_solution(problem, solution, seconds=params.seconds)
            checks[key] = await _by_solver(checking)
        if checks[key].status == "holds":
            return checks[key], _report(drawn, key, unreadable, written)
    if not drawn:
        raise session_error("No solution could be read from what the model wrote")
    votes = Counter(json.dumps(one, sort_keys=True) for one in drawn)
    key = votes.most_common(1)[0][0]
    report = _report(drawn, key, unreadable, written)
    text = f"None of {len(drawn)} holds; the most frequent one has {report.share:.0%} of them. "
    return checks[key].model_copy(update={"text": text + checks[key].text}), report


def _report(drawn: Sequence[Solution], key: str, unreadable: int, written: int) -> SampleReport:
    same = sum(json.dumps(one, sort_keys=True) == key for one in drawn)
    return SampleReport(
        drawn=len(drawn),
        unreadable=unreadable,
        written_tokens=written,
        share=round(same / len(drawn), 3),
    )


async def _proposal(
    params: SolveParams,
    call: CallContext,
    session: Session,
    problem: Problem,
    question: str,
    number: int,
    max_tokens: int,
) -> tuple[Solution, int]:
    """Draw one solution; the number makes the prompt another one for a client that samples."""
    stated = problem.model_dump_json(exclude_defaults=True, exclude_none=True)
    user = f"{question}\n\nThe problem as data:\n{stated}\n\nAttempt {number + 1}."
    reply = await call.ask(
        "solve",
        user,
        proposal_type(problem),
        session=session,
        system=_PROPOSE,
        temperature=params.temperature,
        max_tokens=max_tokens,
    )
    tokens = call.invocations[-1].output_tokens
    written = len(reply.model_dump_json()) // 4 if tokens is None else tokens
    return reply.model_dump(mode="json", by_alias=True)["solution"], written
