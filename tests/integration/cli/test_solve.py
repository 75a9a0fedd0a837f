"""`plait solve` prints answers, and its exit code says whether there is one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from plait.cli import main
from plait.cli.exits import Exit
from plait.reasoning import solve_tool
from plait.reasoning.solving.problem import EXAMPLES, problem_schema

ROTA = {"variables": {"mon, tue": ["Ann", "Ben"]}, "constraints": ["mon != tue", "mon == Ann"]}


def test_a_problem_is_solved_from_a_file_and_from_standard_input(tmp_path: Path) -> None:
    path = tmp_path / "rota.json"
    path.write_text(json.dumps(ROTA))
    runner = CliRunner()

    from_file = runner.invoke(main, ["solve", str(path)])
    assert (from_file.exit_code, from_file.output) == (
        0,
        "The only solution is mon = Ann; tue = Ben.\n",
    )
    piped = runner.invoke(main, ["solve", "-", "--json"], input=json.dumps(ROTA))
    assert json.loads(piped.output)["solution"] == {"mon": "Ann", "tue": "Ben"}
    checked = runner.invoke(main, ["solve", str(path), "--check", '{"mon": "Ben", "tue": "Ann"}'])
    assert checked.exit_code == Exit.NOT_SOLVED
    assert "c2 (mon == Ann)" in checked.output


@pytest.mark.parametrize(
    ("problem", "code", "words"),
    [
        ({**ROTA, "constraints": ["mon != mon"]}, Exit.NOT_SOLVED, "c1 (mon != mon)"),
        ({**ROTA, "constraints": ["mo != tue"]}, Exit.USAGE, "did you mean 'mon'?"),
        ("{", Exit.USAGE, "this is not JSON"),
    ],
)
def test_the_exit_code_says_why_there_is_no_answer(problem: object, code: Exit, words: str) -> None:
    text = problem if isinstance(problem, str) else json.dumps(problem)

    result = CliRunner().invoke(main, ["solve", "-"], input=text)

    assert result.exit_code == code
    assert words in result.output


def test_examples_and_the_schema_are_printed() -> None:
    runner = CliRunner()

    assert (
        json.loads(runner.invoke(main, ["solve", "--example", "path"]).output) == EXAMPLES["path"]
    )
    assert json.loads(runner.invoke(main, ["solve", "--schema"]).output) == problem_schema()
    assert runner.invoke(main, ["solve"]).exit_code == Exit.USAGE
    for wrong in ("{", "[1]"):
        options = ["solve", "-", "--check", wrong]
        assert runner.invoke(main, options, input=json.dumps(ROTA)).exit_code != 0


@pytest.mark.anyio
async def test_the_tool_of_langchain_answers_with_the_same_words() -> None:
    tool = solve_tool()
    blocking, awaited = tool.invoke({"problem": ROTA}), await tool.ainvoke({"problem": ROTA})

    assert json.loads(awaited)["solution"] == {"mon": "Ann", "tue": "Ben"}
    assert json.loads(blocking) == json.loads(awaited)
    assert json.loads(await tool.ainvoke({"problem": {"variables": {}}}))["status"] == "malformed"
    assert "VariablesProblem" in json.dumps(tool.args_schema)
