"""OpenTelemetry spans and metrics, by the conventions for MCP and generative AI.

They are recorded when the program has set up a provider of OpenTelemetry; only its API is imported
here, and only once a server is contacted.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from plait.errors import PlaitError, ToolFailedError
from plait.traces.observer import CallTool, Operation

if TYPE_CHECKING:
    from opentelemetry.metrics import Histogram
    from opentelemetry.trace import Span, Tracer

Attributes = Mapping[str, str | int | float | bool]

_SCOPE = "plait"
_SECONDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""The bucket boundaries that the conventions recommend."""
_TOKENS = tuple(4**power for power in range(14))
_CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The variable of the conventions that allows arguments and results in spans."""


def is_traced() -> bool:
    """Return whether OpenTelemetry has anything to record or to pass on."""
    current_context, has_provider = _opentelemetry()
    return bool(current_context()) or has_provider()


@cache
def _opentelemetry() -> tuple[Callable[[], object], Callable[[], bool]]:
    from opentelemetry import trace  # noqa: PLC0415  # not before a connection
    from opentelemetry.context import get_current  # noqa: PLC0415

    def has_provider() -> bool:
        # The environment was read before; `get_tracer_provider` reads it every time.
        if is_read and getattr(trace, "_TRACER_PROVIDER", trace) is None:
            metrics = sys.modules.get("opentelemetry.metrics._internal")
            return getattr(metrics, "_METER_PROVIDER", None) is not None
        return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)

    is_read = False
    is_read = not has_provider()
    return get_current, has_provider


def captures_content() -> bool:
    """Return whether arguments and results may be recorded."""
    return os.environ.get(_CAPTURE, "").lower() in {"1", "true", "span_only", "span_and_event"}


class SpanObserver:
    """Records each request to a server as a client span, with its duration."""

    def around(self, operation: Operation) -> AbstractContextManager[None]:
        """Return the span of the operation."""
        attributes: dict[str, str | int] = {
            "mcp.method.name": operation.method,
            "plait.server": operation.server,
        }
        name = operation.method
        if isinstance(operation, CallTool):
            name = f"{name} {operation.tool}"
            attributes["gen_ai.operation.name"] = "execute_tool"
            attributes["gen_ai.tool.name"] = operation.tool
        if operation.attempt > 1:
            attributes["plait.attempt"] = operation.attempt
        return _client_span(name, attributes)


SPANS = SpanObserver()
"""The one observer that makes spans; it holds nothing."""


@contextmanager
def _client_span(name: str, attributes: Attributes) -> Generator[None]:
    with (
        _span(name, attributes, client=True) as details,
        _measured("mcp.client.operation.duration", details),
    ):
        yield


@contextmanager
def tool_span(
    server: str, tool: str, arguments: Callable[[], str], call_id: str | None = None
) -> Generator[dict[str, Any]]:
    """Record a tool call with all of its attempts; what is put in the yielded dict is added."""
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
        "gen_ai.tool.type": "extension",
        "plait.server": server,
    }
    if call_id is not None:
        attributes["gen_ai.tool.call.id"] = call_id
    if captures_content():
        attributes["gen_ai.tool.call.arguments"] = arguments()
    with (
        _span(f"execute_tool {tool}", attributes) as details,
        _measured("gen_ai.execute_tool.duration", details),
    ):
        yield details


@contextmanager
def _span(name: str, attributes: Attributes, *, client: bool = False) -> Generator[dict[str, Any]]:
    """Make a span current; an error that ends it is recorded by its type, without its text."""
    from opentelemetry.trace import SpanKind, Status, StatusCode  # noqa: PLC0415

    kind = SpanKind.CLIENT if client else SpanKind.INTERNAL
    details = dict(attributes)
    with _tracer().start_as_current_span(
        name,
        kind=kind,
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        try:
            yield details
        except BaseException as error:
            details["error.type"] = error_type(error)
            if isinstance(error, PlaitError) and error.code is not None:
                details["rpc.response.status_code"] = str(error.code)
            span.set_status(Status(StatusCode.ERROR))
            raise
        else:
            if "error.type" in details:
                span.set_status(Status(StatusCode.ERROR))
        finally:
            span.set_attributes(details)


@contextmanager
def _measured(name: str, details: Mapping[str, Any]) -> Generator[None]:
    began = time.monotonic()
    try:
        yield
    except BaseException as error:
        kept = {**_low_cardinality(details), "error.type": error_type(error)}
        _histogram(name).record(time.monotonic() - began, kept)
        raise
    _histogram(name).record(time.monotonic() - began, _low_cardinality(details))


_METRIC_ATTRIBUTES = frozenset(
    {"mcp.method.name", "gen_ai.operation.name", "gen_ai.tool.name", "error.type", "plait.server"}
)


def _low_cardinality(details: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in details.items() if name in _METRIC_ATTRIBUTES}


TOOL_ERROR = "tool_error"
"""The `error.type` of a call that its tool reports as failed."""


def error_type(error: BaseException) -> str:
    """Return what `error.type` is for an error: a code, `tool_error`, or the class."""
    if isinstance(error, ToolFailedError):
        return TOOL_ERROR
    if isinstance(error, PlaitError) and error.code is not None:
        return str(error.code)
    return type(error).__name__


def describe_request(attributes: Attributes) -> None:
    """Add attributes to the current span."""
    current_span().set_attributes(dict(attributes))


def add_event(name: str, attributes: Attributes) -> None:
    """Add an event to the current span, if anything is traced."""
    if is_traced():
        current_span().add_event(name, attributes)


def record_session(seconds: float, attributes: Attributes) -> None:
    """Record how long a session was open."""
    _histogram("mcp.client.session.duration").record(seconds, dict(attributes))


def trace_context() -> dict[str, str]:
    """Return the fields that pass the current span on to a server."""
    from opentelemetry.propagate import inject  # noqa: PLC0415

    fields: dict[str, str] = {}
    inject(fields)
    return fields


def current_span() -> Span:
    """Return the span of the current context."""
    from opentelemetry.trace import get_current_span  # noqa: PLC0415

    return get_current_span()


@cache
def _tracer() -> Tracer:
    from opentelemetry.trace import get_tracer  # noqa: PLC0415

    return get_tracer(_SCOPE)


@cache
def _histogram(name: str) -> Histogram:
    from opentelemetry.metrics import get_meter  # noqa: PLC0415

    tokens = name.endswith("token.usage")
    return get_meter(_SCOPE).create_histogram(
        name,
        unit="{token}" if tokens else "s",
        explicit_bucket_boundaries_advisory=_TOKENS if tokens else _SECONDS,
    )
