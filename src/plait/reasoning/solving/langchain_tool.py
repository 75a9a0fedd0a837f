"""The solver as a tool of LangChain, for agents without the reasoning server."""

from __future__ import annotations

import json
from typing import Any, Final

from langchain_core.tools import BaseTool, StructuredTool

from plait.reasoning.solving.problem import EXAMPLES, problem_schema
from plait.reasoning.solving.run import DEFAULT_SECONDS, asolve, solve

_DESCRIPTION: Final = (
    "Have a solver answer a problem of choices and constraints exactly: schedules, assignments, "
    "seating, configurations, budgets, routes, orders, rule books. It answers with one solution, "
    "several, the best, or which constraints contradict each other. Give each constraint a name "
    "and the sentence it came from. Examples of `problem`: {examples}"
)


def solve_tool(*, seconds: float = DEFAULT_SECONDS) -> BaseTool:
    """Return a tool that solves the problem that a model states, within a time for each call.

    What is malformed is part of the answer, so that the model can correct it.
    """

    def run(problem: dict[str, Any]) -> str:
        return json.dumps(solve(problem, seconds=seconds).data(), ensure_ascii=False)

    async def arun(problem: dict[str, Any]) -> str:
        return json.dumps((await asolve(problem, seconds=seconds)).data(), ensure_ascii=False)

    schema = problem_schema()
    arguments = {
        "type": "object",
        "properties": {"problem": {key: schema[key] for key in schema if key != "$defs"}},
        "required": ["problem"],
        "$defs": schema["$defs"],
    }
    return StructuredTool.from_function(
        run,
        coroutine=arun,
        name="solve",
        description=_DESCRIPTION.format(examples=json.dumps([*EXAMPLES.values()])),
        args_schema=arguments,
        infer_schema=False,
    )
