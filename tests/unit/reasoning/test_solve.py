"""Problems and answers are thoughts of a session, whoever states them."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from plait.errors import RefusedError, ReplyError
from plait.reasoning.backends.port import HostCompleter, Prompt, ScriptedCompleter
from plait.reasoning.backends.settings import ReasoningSettings
from plait.reasoning.diagram import read_document
from plait.reasoning.export import EXPORTERS
from plait.reasoning.modes.solve import SCHEMA_URI
from plait.reasoning.serving.mcp_server import build_server
from plait.reasoning.serving.service import open_service
from plait.reasoning.solving.problem import EXAMPLES
from plait.reasoning.solving.statement import (
    KIND_PROMPT,
    STATEMENT_KINDS,
    Kind,
    StatedChoices,
    StatedKind,
    StatedRule,
    StatedRuleBook,
)
from plait.reasoning.storage.database import database_from_text
from tests.unit.reasoning.conftest import Desk

pytestmark = pytest.mark.anyio

QUESTION = "Ann or Ben works each day, at most twice, not twice in a row; who works on Tuesday?"

ROW = "neighbours_differ(mon, tue, wed)"
ROTA: dict[str, Any] = {
    "variables": {"mon, tue, wed": ["Ann", "Ben"]},
    "constraints": [
        {"name": "row", "rule": ROW, "says": "Nobody twice in a row."},
        {"name": "ill", "rule": "mon != Ann", "says": "Ann is ill | on Monday."},
    ],
}

KIND = {"each": "day", "gets": "a person", "kind": "choices"}
FORM: dict[str, Any] = {
    "groups": [
        {
            "group": "days",
            "names": ["mon", "tue", "wed"],
            "get": "person",
            "values": ["Ann", "Ben"],
            "each_at_most": 2,
        }
    ],
    "rules": [
        {"says": "nobody twice in a row", "rules": ["neighbours_differ(days)"]},
        {"says": "Ann is ill on Monday", "rules": ["mon != Ann"]},
    ],
}
STATEMENT = {**KIND, **FORM}
"""Answers both questions: of which kind it is, and how it is stated."""

RIGHT = {"mon": "Ben", "tue": "Ann", "wed": "Ben"}


async def test_a_problem_and_its_answer_are_thoughts(desk: Desk) -> None:
    result = await desk("solve", problem=ROTA, content=QUESTION, session_id="s")

    assert (result["status"], result["solution"]) == ("one", RIGHT)
    stated, answered = await desk.store.get_session_thoughts("s")
    assert (stated.content, stated.mode, stated.id) == (QUESTION, "solve", result["thought_id"])
    assert (answered.content, answered.parent_id) == (result["text"], stated.id)
    assert (answered.metadata or {})["answer"]["solution"] == RIGHT

    where = await desk("session_where", session_id="s")
    assert where["question"] == QUESTION
    assert where["last_thought"] == {answered.id: answered.content}


async def test_an_export_shows_the_problem_and_the_answer_as_tables(desk: Desk) -> None:
    await desk("solve", problem=ROTA, session_id="s")
    await desk(
        "solve",
        problem={**ROTA, "constraints": [*ROTA["constraints"], "wed == Ann"]},
        session_id="s",
    )
    await desk("solve", problem=EXAMPLES["rules"], session_id="s")
    await desk("solve", problem=EXAMPLES["path"], session_id="s")
    session = await desk.store.get_session("s")
    assert session is not None

    document = await read_document(desk.store, session)
    markdown = EXPORTERS["markdown"](document).content

    for row in (
        "| Variable | Value |",
        "| mon, tue, wed | Ann, Ben |",
        "| tue | Ann |",
        "| Contradicting | Condition | Sentence |",
        "| Asked | Verdict | Because |",
        "| Ash | Bree | 4 |",
    ):
        assert row in markdown
    thoughts = json.loads(EXPORTERS["json"](document).content)["thoughts"]
    stated, answered = (thought["tables"] for thought in thoughts[:2])
    assert stated[0] == {"columns": ["Variable", "Value"], "rows": [["mon, tue, wed", "Ann, Ben"]]}
    assert stated[1]["rows"][1] == ["ill", "mon != Ann", "Ann is ill | on Monday."]
    assert ["tue", "Ann"] in answered[0]["rows"]
    (ill,) = {line for line in markdown.splitlines() if line.startswith("| ill ")}
    # A bar in a sentence does not end its cell.
    assert len(re.findall(r"(?<!\\)\|", ill)) == 4


async def test_branches_state_variants_of_a_problem(desk: Desk) -> None:
    await desk("linear", content="Who works?", session_id="s")
    ways = await desk(
        "tree",
        content="With Ann or without?",
        session_id="s",
        branches=[
            {"thought": "with", "confidence": 0.5},
            {"thought": "without", "confidence": 0.5},
        ],
    )
    first, second = (way["id"] for way in ways["child_branches"])
    without = {
        **ROTA,
        "variables": {"mon, tue, wed": ["Ben", "Cleo"]},
        "constraints": ["mon != tue"],
    }
    await desk("solve", problem=ROTA, session_id="s", branch_id=first)
    await desk("solve", problem=without, session_id="s", branch_id=second)

    # A check takes the problem of its own branch.
    checked = await desk("solve", action="check", solution=RIGHT, session_id="s", branch_id=first)
    assert checked["status"] == "holds"
    other = await desk("solve", action="check", solution=RIGHT, session_id="s", branch_id=second)
    assert other["mistakes"][0]["place"] == "solution.tue"


async def test_a_check_names_what_fails_and_writes_it_down(desk: Desk) -> None:
    await desk("solve", problem=ROTA, content=QUESTION, session_id="s")
    wrong = {"mon": "Ann", "tue": "Ben", "wed": "Ben"}

    result = await desk("solve", action="check", solution=wrong, session_id="s")

    assert result["status"] == "fails"
    assert [one["name"] for one in result["conflict"]] == ["row", "ill"]
    assert "Nobody twice in a row." in result["text"]
    *_, last = await desk.store.get_session_thoughts("s")
    assert last.content == result["text"]


async def test_a_malformed_problem_changes_nothing(desk: Desk) -> None:
    result = await desk(
        "solve", problem={"variables": {"cost": [1, 2]}, "constraints": ["cots == 1"]}
    )

    assert result["status"] == "malformed"
    assert result["mistakes"][0]["nearest"] == "did you mean 'cost'?"
    assert "session_id" not in result
    assert await desk.store.list_sessions(limit=5, offset=0) == []


async def test_a_caller_without_a_model_states_the_problem_itself(desk: Desk) -> None:
    with pytest.raises(RefusedError, match=r"problem=.*variables"):
        await desk("solve", content=QUESTION)
    with pytest.raises(RefusedError, match="solutions="):
        await desk("solve", action="sample", problem=ROTA)
    with pytest.raises(RefusedError, match="problem - is required"):
        await desk("solve")
    with pytest.raises(RefusedError, match="solution - is required"):
        await desk("solve", action="check", problem=ROTA)


async def test_the_first_proposal_that_holds_wins_else_the_most_frequent(desk: Desk) -> None:
    one, two = {**RIGHT, "tue": "Ben"}, {**RIGHT, "mon": "Ann"}

    found = await desk("solve", action="sample", problem=ROTA, solutions=[one, RIGHT, two])
    assert (found["status"], found["solution"], found["sampled"]["drawn"]) == ("holds", RIGHT, 2)

    voted = await desk("solve", action="sample", problem=ROTA, solutions=[one, two, one])
    assert (voted["status"], voted["solution"]) == ("fails", one)
    assert voted["sampled"]["share"] == 0.667
    assert "None of 3 holds" in voted["text"]


async def test_a_model_only_states_the_problem(desk: Desk) -> None:
    desk.script({"problem-statement-v1": STATEMENT})

    result = await desk("solve", content=QUESTION, session_id="s")

    assert (result["status"], result["solution"]) == ("one", RIGHT)
    assert result["question"] == QUESTION
    assert result["statement"]["variables"] == {"mon, tue, wed": ["Ann", "Ben"]}
    assert result["statement"]["constraints"][-1]["says"] == "Ann is ill on Monday"
    assert "was_repaired" not in result
    kind, form = desk.completer.prompts
    assert "choices" in kind.system
    assert form.system == STATEMENT_KINDS["choices"].prompt
    assert form.temperature == 0
    assert form.schema is not None


def _with_rule(rule: str) -> dict[str, Any]:
    rules = [*FORM["rules"], {"says": "Ann on Monday", "rules": [rule]}]
    return {**STATEMENT, "rules": rules}


async def test_only_malformed_rules_are_sent_back_with_the_solvers_words(desk: Desk) -> None:
    mended = {"rules": [{"says": "Ann on Tuesday", "rules": ["tue == Ann"]}]}
    desk.script({"problem-statement-v1": [KIND, _with_rule("tue == Anna"), mended]})

    result = await desk("solve", content=QUESTION)

    assert (result["status"], result["was_repaired"]) == ("one", True)
    assert result["solution"] == RIGHT
    _kind, first, second = desk.completer.prompts
    assert "did you mean 'Ann'?" not in first.user
    assert "did you mean 'Ann'?" in second.user
    assert "Write only these parts again, with rules that are valid: Ann on Monday" in second.user

    desk.script({"problem-statement-v1": _with_rule("tue == Anna")})
    assert (await desk("solve", content=QUESTION))["status"] == "malformed"
    assert len(desk.completer.prompts) == 3


async def test_a_statement_without_a_valid_rule_was_of_the_wrong_kind(desk: Desk) -> None:
    order = {
        "things": ["Ann", "Ben"],
        "circle": False,
        "rules": [{"says": "Ann is ill on Monday", "rules": ["mon != Ann"]}],
    }
    desk.script({"problem-statement-v1": [{**KIND, "kind": "order"}, order, FORM]})

    result = await desk("solve", content=QUESTION)

    assert (result["status"], result["solution"]) == ("one", RIGHT)
    last = desk.completer.prompts[-1]
    assert last.system == STATEMENT_KINDS["choices"].prompt
    assert "malformed" not in last.user


async def test_a_thing_in_two_groups_is_sent_back(desk: Desk) -> None:
    twice = {**FORM, "groups": [*FORM["groups"], *FORM["groups"]]}
    desk.script({"problem-statement-v1": [KIND, twice, FORM]})

    result = await desk("solve", content=QUESTION)

    assert (result["status"], result["solution"]) == ("one", RIGHT)
    assert "mon is in two groups" in desk.completer.prompts[-1].user


@pytest.mark.parametrize("kind", STATEMENT_KINDS)
async def test_the_examples_of_the_prompts_are_statements_with_a_solution(
    desk: Desk, kind: Kind
) -> None:
    prompt, reply_type = STATEMENT_KINDS[kind].prompt, STATEMENT_KINDS[kind].reply_type
    forms = re.findall(r"^Answer: (.*)$", prompt, re.MULTILINE)

    assert forms
    for form in forms:
        problem = reply_type.model_validate_json(form, strict=False).data()
        assert (await desk("solve", problem=problem))["status"] in ("one", "several", "best")


def test_the_examples_of_kinds_have_every_kind() -> None:
    replies = re.findall(r"^Answer: (.*)$", KIND_PROMPT, re.MULTILINE)

    assert {StatedKind.model_validate_json(one).kind for one in replies} == {*STATEMENT_KINDS}


async def test_what_small_models_write_is_read_as_it_is_meant(desk: Desk) -> None:
    night = {"group": "nights", "names": ["Mon night", "Tue night"], "get": "doctor"}
    stated = StatedChoices.model_validate(
        {
            "groups": [{**night, "values": ["Dr. Hale", "Ito"], "each_at_most": 1}],
            "rules": [
                {"says": "On Monday a surgeon", "rules": ["Mon night in surgeons"]},
                {"says": "Surgeons are Dr. Hale", "rules": ["surgeons == [Dr. Hale]"]},
            ],
        }
    )
    found = await desk("solve", problem=stated.data())
    assert found["solution"] == {"Mon night": "Dr. Hale", "Tue night": "Ito"}

    misspelt = stated.model_copy(
        update={"rules": [StatedRule(says="Hale is there", rules=["Mon in [Dr. Hale]"])]}
    )
    assert (await desk("solve", problem=misspelt.data()))["status"] == "malformed"

    versions = {"group": "parts", "names": ["app", "base"], "get": "version", "each_at_most": 0}
    numbers = StatedChoices.model_validate(
        {
            "groups": [{**versions, "values": ["1", "2"]}],
            "rules": [
                {"says": "The new app", "rules": ["new == [2] implies app in new"]},
                {"says": "App 2 needs base 2", "rules": ["app == 2 implies base >= 2"]},
            ],
        }
    )
    found = await desk("solve", problem=numbers.data())
    assert found["solution"] == {"app": 2, "base": 2}

    book = StatedRuleBook.model_validate(
        {
            "about": "stone",
            "facts": ["wet"],
            # The result is no condition of its own rule.
            "rules": [{"says": "What is wet is cold", "when": ["wet", "cold"], "then": "cold"}],
            "ask": ["cold"],
        }
    )
    assert (await desk("solve", problem=book.data()))["solution"]["follows"] == ["cold"]


async def test_a_statement_that_contradicts_itself_is_shown_as_it_is(desk: Desk) -> None:
    desk.script({"problem-statement-v1": _with_rule("mon == Ann")})

    result = await desk("solve", content=QUESTION)

    assert result["status"] == "none"
    assert [one["says"] for one in result["conflict"]] == ["Ann is ill on Monday", "Ann on Monday"]
    assert len(desk.completer.prompts) == 2


async def test_proposals_are_drawn_at_a_temperature_within_a_budget(desk: Desk) -> None:
    drawn = [{**RIGHT, "tue": "Ben"}, {**RIGHT, "mon": "Ann"}, RIGHT]
    left = iter(drawn)

    def reply(prompt: Prompt) -> dict[str, Any]:
        assert prompt.temperature == 0.9
        return {"steps": "…", "solution": next(left)}

    desk.script(reply)
    found = await desk(
        "solve", action="sample", problem=ROTA, content=QUESTION, temperature=0.9, session_id="s"
    )
    assert (found["status"], found["sampled"]["drawn"]) == ("holds", 3)
    # Each prompt is another one: a client that samples answers the same prompt once.
    assert len({prompt.user for prompt in desk.completer.prompts}) == 3

    desk.script(lambda _prompt: {"steps": "x" * 350, "solution": drawn[0]})
    spent = await desk("solve", action="sample", problem=ROTA, samples=9, max_tokens=200)
    assert spent["status"] == "fails"
    assert 2 <= spent["sampled"]["drawn"] <= 4
    assert spent["sampled"]["written_tokens"] < 400


async def test_proposals_that_cannot_be_read_are_counted(desk: Desk) -> None:
    desk.script(lambda _prompt: "no JSON")
    with pytest.raises(RefusedError, match="No solution could be read"):
        await desk("solve", action="sample", problem=ROTA, samples=2)
    with pytest.raises(ReplyError):
        await desk("solve", content=QUESTION)


async def test_help_has_every_form_and_function(desk: Desk) -> None:
    result = await desk("solve", action="help")

    assert result["forms"] == EXAMPLES
    assert any(one.startswith("all_different(") for one in result["functions"])
    assert SCHEMA_URI in result["text"]


async def _client(tmp_path: Path, completer: Any) -> AsyncIterator[Client]:
    database = database_from_text(str(tmp_path / "reasoning.db"))
    settings = ReasoningSettings(profile="compact")
    async with (
        open_service(settings, database=database, completer=completer) as service,
        Client(build_server(service)) as client,
    ):
        yield client


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Client]:
    async for client in _client(tmp_path, HostCompleter()):
        yield client


@pytest.fixture
async def model(tmp_path: Path) -> AsyncIterator[Client]:
    script = {"problem-statement-v1": STATEMENT, "mode-router-v1": {"recommended_mode": "tree"}}
    async for client in _client(tmp_path, ScriptedCompleter(script)):
        yield client


async def _data(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(f"reasoning_{tool}", arguments)
    assert not result.is_error, result.content
    return dict(result.structured_content or {})


async def test_the_compact_profile_solves_checks_and_explains(host: Client) -> None:
    solved = await _data(host, "solve", problem=ROTA, content=QUESTION)
    assert (solved["status"], solved["solution"], solved["thought_id"]) == ("one", RIGHT, "t1")
    session = {"session_id": solved["session_id"]}
    checked = await _data(host, "solve", action="check", solution=RIGHT, **session)
    assert checked["status"] == "holds"
    assert (await _data(host, "solve", action="help"))["forms"] == EXAMPLES

    page = await host.read_resource(SCHEMA_URI)
    (content,) = page.contents
    published = json.loads(getattr(content, "text", ""))
    assert published["examples"] == EXAMPLES
    assert "VariablesProblem" in published["schema"]["$defs"]
    assert SCHEMA_URI in [str(one.uri) for one in (await host.list_resources()).resources]


@pytest.mark.parametrize(
    ("question", "mode"),
    [
        (QUESTION, "solve"),
        ("Make a rota: nobody works more than two days, and on Friday either Ann or Ben.", "solve"),
        (
            "What is the shortest route from Ash to Elm by these roads: Ash-Bree 4, Bree-Elm 3?",
            "solve",
        ),
        (
            "Which versions of these packages are compatible, if a needs b before 2, unless …?",
            "solve",
        ),
        ("Six guests sit at a table; Ann sits next to Ben, and Cleo opposite Dan.", "solve"),
        (
            "Write a poem about the sea, in exactly four lines of whatever metre you like best.",
            None,
        ),
        (
            "Compare the alternatives for our storage layer, and weigh their trade-offs for us.",
            "tree",
        ),
        ("Why did the deployment on Friday fail, and what should we change in the pipeline?", None),
    ],
)
async def test_advice_names_the_solver_where_a_question_has_its_shape(
    host: Client, question: str, mode: str | None
) -> None:
    advice = await _data(host, "review", action="advise", content=question)

    assert (advice["recommended_mode"] == "solve") == (mode == "solve")
    if mode == "solve":
        assert "under conditions (" in advice["rationale"]
        assert "exactly" in advice["rationale"]
        (begin,) = advice["next"]
        assert begin.startswith("reasoning_solve content=")


async def test_the_full_profile_advises_as_the_original_server_does(desk: Desk) -> None:
    advice = await desk("auto", content=QUESTION)

    assert advice["recommended_mode"] != "solve"
    hinted = await desk("auto", content=QUESTION, hints=["solve"])
    assert hinted["recommended_mode"] != "solve"
