"""`plait solve`: have a solver answer a problem of choices and constraints."""

from __future__ import annotations

import json
from typing import TextIO

import click

from plait.cli.base import ExampleCommand
from plait.cli.exits import ArgumentError, Exit


@click.command(cls=ExampleCommand)
@click.argument("problem", type=click.File(encoding="utf-8"), required=False)
@click.option("--json", "as_json", is_flag=True, help="Print the whole answer as JSON.")
@click.option(
    "--check", "solution", metavar="JSON", help="Check this solution instead of finding one."
)
@click.option(
    "--seconds",
    type=click.FloatRange(0.1, 120),
    default=10.0,
    show_default=True,
    help="Time limit.",
)
@click.option(
    "--example",
    type=click.Choice(["variables", "order", "path", "rules"]),
    help="Print an example of a form, and solve nothing.",
)
@click.option("--schema", is_flag=True, help="Print the JSON schema of problems.")
@click.pass_context
def solve(
    ctx: click.Context,
    problem: TextIO | None,
    *,
    as_json: bool,
    solution: str | None,
    seconds: float,
    example: str | None,
    schema: bool,
) -> None:
    """Solve a problem of choices and constraints exactly.

    PROBLEM is a JSON file, or `-` for standard input. The answer is one solution, several, the
    best, or which constraints contradict each other.

    Examples:
        plait solve rota.json
        plait solve --example path | plait solve -
        plait solve rota.json --check '{"mon": "Ann", "tue": "Ben"}'
    """
    from functools import partial
    from typing import Any, cast

    import anyio

    from plait.reasoning.solving.problem import EXAMPLES, problem_schema
    from plait.reasoning.solving.run import check_solution
    from plait.reasoning.solving.run import solve as solve_problem

    if example is not None or schema:
        shown = EXAMPLES[example] if example is not None else problem_schema()
        click.echo(json.dumps(shown, indent=2, ensure_ascii=False))
        return
    if problem is None:
        raise click.UsageError("name a file, or - for standard input")
    text = problem.read()

    if solution is None:
        answer = solve_problem(text, seconds=seconds)
    else:
        try:
            proposed = json.loads(solution)
        except ValueError as error:
            raise ArgumentError(f"--check is not JSON: {error}") from error
        if not isinstance(proposed, dict):
            raise ArgumentError("--check is no JSON object")
        answer = anyio.run(
            partial(check_solution, text, cast("dict[str, Any]", proposed), seconds=seconds)
        )
    if as_json:
        click.echo(json.dumps(answer.data(), indent=2, ensure_ascii=False))
    else:
        click.echo(answer.text)
        for mistake in answer.mistakes[1:]:
            click.echo(f"{mistake.place}: {mistake.problem}. Valid: {mistake.nearest}")
    if answer.status == "malformed":
        ctx.exit(Exit.USAGE)
    if answer.status in ("none", "undecided", "fails"):
        ctx.exit(Exit.NOT_SOLVED)
