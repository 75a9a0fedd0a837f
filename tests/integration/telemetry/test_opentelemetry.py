"""Spans and metrics, with the real SDK of OpenTelemetry."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from mcp.server import MCPServer
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import SpanKind

from plait import PlaitError, Policy, Toolbox
from plait.telemetry.observer import CallTool, Operation, ReadRequest
from plait.testing import ServerProcess
from plait.testing.fixtures import StartFaultServer
from plait.testing.server import build_server
from tests.integration.telemetry.recorded import Recorded, attributes
from tests.nursery import entry, python, stdio_config

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

PROGRAM = """
import asyncio, sys
from plait import Toolbox
from plait.testing.server import build_server

async def main():
    async with Toolbox({"sums": build_server()}) as box:
        await box.call("sums", "add_numbers", {"a": 1, "b": 2})
        await box.call("sums", "add_numbers", {"a": 1, "b": 2})

asyncio.run(main())
print([name for name in sys.modules if name.startswith("opentelemetry.sdk")])
"""


async def test_waiting_for_a_person_is_a_span_of_its_own(recorded: Recorded) -> None:
    servers = {"sums": build_server()}
    asking = Toolbox(servers, policy=Policy(default="ask"), on_approval=lambda _: True)
    async with asking as box:
        await box.call("sums", "add_numbers", {"a": 1, "b": 2})

    spans = recorded.spans()
    waited, whole = spans["wait_for_approval"], spans["execute_tool add_numbers"]
    assert waited.parent == whole.get_span_context()


async def test_a_call_is_a_span_with_a_client_span_for_each_attempt(
    recorded: Recorded, tmp_path: Path
) -> None:
    servers = {"bank": stdio_config(state_dir=str(tmp_path))}
    async with Toolbox(servers) as box:
        await box.tools()
        recorded.exporter.clear()
        result = await box.call("bank", "get_and_die", {"key": "balance"})
        assert result.attempts == 2

    whole = recorded.spans()["execute_tool get_and_die"]
    attempts = recorded.ours("tools/call get_and_die")
    assert [span.kind for span in attempts] == [SpanKind.CLIENT] * 2
    assert all(span.parent == whole.get_span_context() for span in attempts)
    assert [span.status.is_ok for span in attempts] == [False, True]
    assert (whole.kind, whole.status.is_ok) == (SpanKind.INTERNAL, True)
    assert [event.name for event in whole.events] == ["plait.retry"]
    assert [event.name for event in attempts[1].events] == ["plait.session.ready"]
    facts = attributes(attempts[1])
    assert facts.pop("jsonrpc.request.id")
    assert facts == {
        "mcp.method.name": "tools/call",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "get_and_die",
        "mcp.protocol.version": "2026-07-28",
        "network.transport": "pipe",
        "plait.server": "bank",
        "plait.attempt": 2,
    }
    counts = {
        point.attributes.get("error.type"): point.count
        for point in recorded.points("mcp.client.operation.duration")
        if point.attributes.get("gen_ai.tool.name") == "get_and_die"
    }
    assert counts == {None: 1, "OutcomeUnknownError": 1}
    assert recorded.points("gen_ai.execute_tool.duration")
    assert recorded.points("mcp.client.session.duration")


async def test_lists_reads_and_failures_are_spans(
    recorded: Recorded, fault_server: StartFaultServer
) -> None:
    server = fault_server()
    async with Toolbox({"files": {"url": server.url}}) as box:
        await box.tools()
        with pytest.raises(PlaitError):
            await box.read_resource("files", "demo://none")
        failed = await box.call("files", "fail", {"text": "no"})
    async with Toolbox({"old": {"url": server.url, "protocol": "legacy"}}) as box:
        await box.call("old", "echo", {"text": "hi"})

    assert failed.is_error
    spans = recorded.spans()
    listed = attributes(spans["tools/list"])
    assert (listed["server.address"], listed["server.port"]) == ("127.0.0.1", server.port)
    assert listed["network.transport"] == "tcp"
    # Sessions have ids only before protocol 2026-07-28.
    assert "mcp.session.id" not in attributes(spans["tools/call fail"])
    assert attributes(spans["tools/call echo"])["mcp.session.id"]
    assert not spans["resources/read"].status.is_ok
    for name in ("tools/call fail", "execute_tool fail"):
        assert attributes(spans[name])["error.type"] == "tool_error"
        assert not spans[name].status.is_ok


SERVE = """
from plait.testing.serve_transports import serve_on_port

serve_on_port(server.streamable_http_app())
"""

ECHO = """
from mcp.server import MCPServer
from mcp.server.mcpserver import Context

server = MCPServer("echo", log_level="ERROR")

@server.tool()
def meta(ctx: Context) -> str:
    request = getattr(ctx.request_context, "request", None)
    header = None if request is None else request.headers.get("traceparent")
    return f"{dict(ctx.request_context.meta or {})['traceparent']} {header}"
"""


@pytest.mark.parametrize("over", ["in-process", "stdio", "streamable-http"])
async def test_servers_get_the_context_of_the_span(
    over: str, recorded: Recorded, tmp_path: Path
) -> None:
    program = write(tmp_path / "echo.py", f"{ECHO}\nserver.run('stdio')")
    with ExitStack() as stack:
        if over == "in-process":
            scope: dict[str, Any] = {}
            exec(ECHO, scope)
            server = scope["server"]
        elif over == "stdio":
            server = entry(str(program))
        else:
            program = write(tmp_path / "echo.py", f"{ECHO}\n{SERVE}")
            running = stack.enter_context(ServerProcess([*python(), str(program)]))
            server = {"url": running.url}
        async with Toolbox({"echo": server}) as box:
            text = (await box.call("echo", "meta")).text

    span = recorded.spans()["tools/call meta"].get_span_context()
    assert span is not None
    in_meta, header = text.split(" ")
    assert in_meta.startswith(f"00-{span.trace_id:032x}-{span.span_id:016x}-")
    assert header == (in_meta if over == "streamable-http" else "None")


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


async def test_arguments_are_recorded_only_if_that_is_allowed(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Toolbox({"sums": build_server()}) as box:
        await box.call("sums", "add_numbers", {"a": 1, "b": 2})
        before = attributes(recorded.spans()["execute_tool add_numbers"])
        monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
        await box.call("sums", "add_numbers", {"a": 1, "b": 2})
        after = attributes(recorded.spans()["execute_tool add_numbers"])

    assert "gen_ai.tool.call.arguments" not in before
    assert json.loads(str(after["gen_ai.tool.call.arguments"])) == {"a": 1, "b": 2}


async def test_observers_see_lists_and_failed_tools(recorded: Recorded) -> None:
    seen: list[Any] = []

    class Watcher:
        @contextmanager
        def around(self, operation: Operation) -> Generator[None]:
            try:
                yield
            except PlaitError as error:
                seen.append((operation, type(error).__name__))
                raise
            else:
                seen.append((operation, None))

    server = MCPServer("bad")

    @server.tool()
    def fail() -> str:
        raise ValueError("no")

    async with Toolbox({"bad": server}, observers=[Watcher()]) as box:
        await box.tools()
        assert (await box.call("bad", "fail")).is_error

    assert seen[0] == (ReadRequest(server="bad", method="tools/list", attempt=1), None)
    assert seen[-1][0] == CallTool(server="bad", tool="fail", attempt=1)
    assert seen[-1][1] == "_ReportedFailure"


def test_the_sdk_is_not_imported_by_programs_that_do_not_use_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=50
    )
    assert done.stdout.strip() == "[]"


async def test_a_receiver_of_otlp_gets_the_spans(recorded: Recorded) -> None:
    received: list[str] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            request = ExportTraceServiceRequest.FromString(body)
            received.extend(
                span.name
                for resource in request.resource_spans
                for scope in resource.scope_spans
                for span in scope.spans
            )
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002

    receiver = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{receiver.server_port}/v1/traces"
    processor = SimpleSpanProcessor(OTLPSpanExporter(endpoint=url))
    # An exporter without its receiver would stop the event loop for seconds at each span.
    with recorded.processed_by(processor):
        async with Toolbox({"sums": build_server()}) as box:
            await box.call("sums", "add_numbers", {"a": 1, "b": 2})
    processor.shutdown()
    receiver.shutdown()
    receiver.server_close()

    assert {"execute_tool add_numbers", "tools/call add_numbers"} <= set(received)
