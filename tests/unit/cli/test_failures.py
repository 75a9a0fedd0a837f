"""Errors are a short block: what happened, and what to do."""

from plait.cli.advice import Block, block_for
from plait.errors import ConfigError, ConnectError, Problem, ToolNotFoundError


def problem(path: str, suggestion: str | None = None, file: str = "mcp.json") -> Problem:
    return Problem(file=file, path=path, code="bad", message="is wrong", suggestion=suggestion)


def test_one_problem_is_one_line_and_its_suggestion_the_hint() -> None:
    error = ConfigError.from_problems([problem("mcpServers.a.url", "write it well")])

    assert block_for(error) == Block("mcp.json: mcpServers.a.url: is wrong", (), "write it well")


def test_several_problems_are_a_list_under_their_file() -> None:
    error = ConfigError.from_problems([problem("a", "write it well"), problem("b")])

    assert block_for(error) == Block(
        "2 problems in mcp.json", ("a: is wrong", "    fix: write it well", "b: is wrong")
    )


def test_problems_of_several_files_name_theirs() -> None:
    error = ConfigError.from_problems([problem("a"), problem("b", file="other.json")])

    assert block_for(error) == Block(
        "2 problems in the configuration", ("mcp.json: a: is wrong", "other.json: b: is wrong")
    )


def test_an_error_with_advice_has_a_hint() -> None:
    assert block_for(ToolNotFoundError("time has no tool 'x'", server="time")) == Block(
        "time has no tool 'x'", (), "list them: plait tools time"
    )


def test_a_file_that_cannot_be_written_is_named() -> None:
    assert block_for(PermissionError(13, "Permission denied", "out.png")) == Block(
        "out.png: Permission denied"
    )


def test_a_defect_is_called_one() -> None:
    assert block_for(KeyError("x")) == Block(
        "internal error: KeyError: 'x'", hint="-v shows the traceback"
    )


def test_an_error_of_several_lines_keeps_them() -> None:
    assert block_for(ConnectError("one\ntwo")) == Block("one", ("two",))
