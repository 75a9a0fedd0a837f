"""Running a tool: the credentials with which the resources of its result are read."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import mcp_types as types
import pytest

from plait.client.calls.outcome import ToolResult
from plait.client.calls.tool_call import ToolCall
from plait.client.catalog.tool import Tool
from plait.client.connections.credentials import CallerCredentials
from plait.client.protocol.repair import repair_result
from plait.langchain.tools.caller import Caller
from plait.langchain.tools.content import ToolOutput
from plait.langchain.tools.runner import Invocation, RunnerSettings, ToolRunner

pytestmark = pytest.mark.anyio

CREDENTIALS = CallerCredentials.of({"Authorization": "Bearer for-main"})
PENDING = {"type": "resource", "resource": {"uri": "docs://a"}}
"""An embedded resource of which the server sends only the URI."""


class Servers(Caller):
    """A caller whose calls are answered by the main server or by its fallback."""

    def __init__(self, answers: str) -> None:
        self._answers = answers
        self.reads: list[tuple[str, CallerCredentials | None]] = []

    async def execute(self, call: ToolCall) -> ToolResult:
        repaired = repair_result("tools/call", {"content": [PENDING]}, "2025-11-25")
        result = types.CallToolResult.model_validate(repaired.result)
        return ToolResult.from_mcp(
            self._answers, call.tool, result, attempts=1, notes=(), seconds=0.0
        )

    async def read_resource(
        self, server: str, uri: str, *, access: CallerCredentials | None = None
    ) -> types.ReadResourceResult:
        self.reads.append((server, access))
        contents = types.TextResourceContents(uri=uri, text="inside")
        return types.ReadResourceResult(contents=[contents])

    def run_blocking(
        self, work: Callable[..., Coroutine[Any, Any, Any]], *args: Any, **kwargs: Any
    ) -> Any:
        raise NotImplementedError


async def _reads(answers: str) -> list[tuple[str, CallerCredentials | None]]:
    servers = Servers(answers)
    runner = ToolRunner(servers, RunnerSettings(), access=CREDENTIALS)
    tool = Tool(server="main", wire_name="search", name="search")

    output = await runner.run(tool, Invocation(arguments={}), {})

    assert isinstance(output, ToolOutput)
    assert output.content == "Resource: docs://a (6 B)"
    return servers.reads


async def test_a_resource_of_the_server_is_read_with_the_credentials_of_the_call() -> None:
    assert await _reads("main") == [("main", CREDENTIALS)]


async def test_a_resource_of_the_fallback_is_read_without_the_credentials_of_the_server() -> None:
    assert await _reads("fallback") == [("fallback", None)]
