"""OpenTelemetry spans and metrics, by the conventions for MCP and generative AI.

They are recorded when the program has set up a provider of OpenTelemetry; only its API is imported
here, and only once a server is contacted, or the program has imported it. A failure of the
provider, such as a processor that raises, is logged, and never ends what is traced.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any

from plait.errors import PlaitError, ToolFailedError
from plait.telemetry.observer import CallTool, Operation

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import Histogram
    from opentelemetry.trace import Span, Tracer

logger = logging.getLogger("plait.telemetry")

Attributes = Mapping[str, str | int | float | bool | Sequence[str]]

_SCOPE = "plait"
_SECONDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""The bucket boundaries that the conventions recommend."""
_TOKENS = tuple(4**power for power in range(14))
_CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The variable of the conventions that allows arguments, results and messages in spans."""
_IS_SET_UP_BY_ENVIRONMENT = not os.environ.keys().isdisjoint(
    {"OTEL_PYTHON_TRACER_PROVIDER", "OTEL_PYTHON_METER_PROVIDER"}
)
"""Whether variables set up a provider without a line of code."""


def is_traced() -> bool:
    """Return whether OpenTelemetry has anything to record or to pass on.

    Without a module of it, or a variable that names a provider, nobody can have set it up, and it
    is not imported.
    """
    if "opentelemetry.context" not in sys.modules and not _IS_SET_UP_BY_ENVIRONMENT:
        return False
    api = _api()
    if api is None:
        return False
    get_current, get_tracer_provider, proxy = api
    if get_current() or not isinstance(get_tracer_provider(), proxy):
        return True
    metrics = sys.modules.get("opentelemetry.metrics")
    # The API has no name for the provider that stands for a missing one, but it is the API's own.
    return metrics is not None and not type(metrics.get_meter_provider()).__module__.startswith(
        "opentelemetry.metrics"
    )


@cache
def _api() -> tuple[Callable[[], object], Callable[[], object], type] | None:
    try:
        from opentelemetry import trace  # noqa: PLC0415  # not before it is used
        from opentelemetry.context import get_current  # noqa: PLC0415
    except ModuleNotFoundError:
        return None
    return get_current, trace.get_tracer_provider, trace.ProxyTracerProvider


def captures_content() -> bool:
    """Return whether arguments and results may be recorded."""
    return os.environ.get(_CAPTURE, "").lower() in {"1", "true", "span_only", "span_and_event"}


class SpanObserver:
    """Records each request to a server as a client span, with its duration."""

    @contextmanager
    def around(self, operation: Operation) -> Generator[None]:
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
        with (
            span(name, attributes, client=True) as details,
            measured("mcp.client.operation.duration", details),
        ):
            yield


SPANS = SpanObserver()
"""The one observer that makes spans; it holds nothing."""


@contextmanager
def tool_span(
    server: str,
    tool: str,
    arguments: Callable[[], str],
    *,
    call_id: str | None = None,
    kind: str = "extension",
) -> Generator[dict[str, Any]]:
    """Record a tool call with all of its attempts; what is put in the yielded dict is added."""
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
        "gen_ai.tool.type": kind,
        "plait.server": server,
    }
    if call_id is not None:
        attributes["gen_ai.tool.call.id"] = call_id
    if captures_content():
        attributes["gen_ai.tool.call.arguments"] = arguments()
    with (
        span(f"execute_tool {tool}", attributes) as details,
        measured("gen_ai.execute_tool.duration", details),
    ):
        yield details


def waiting_span(request: str) -> AbstractContextManager[object]:
    """Record how long a person takes to answer, which is no time of the tool."""
    return span(f"wait_for_{request}", {}) if is_traced() else nullcontext()


@contextmanager
def span(
    name: str, attributes: Attributes, *, client: bool = False, seconds_ago: float | None = None
) -> Generator[dict[str, Any]]:
    """Make a span current; an error that ends it is recorded by its type, without its text."""
    from opentelemetry.context import attach, detach  # noqa: PLC0415
    from opentelemetry.trace import (  # noqa: PLC0415
        SpanKind,
        Status,
        StatusCode,
        set_span_in_context,
    )

    details = dict(attributes)
    kind = SpanKind.CLIENT if client else SpanKind.INTERNAL
    start = None if seconds_ago is None else time.time_ns() - int(seconds_ago * 1e9)
    current, token = None, None
    with _Guarded():
        around = None if (opened := _opened.get()) is None else opened.context()
        current = _tracer().start_span(name, around, kind, attributes, start_time=start)
        token = attach(set_span_in_context(current))
    try:
        yield details
    except BaseException as error:
        details["error.type"] = error_type(error)
        if isinstance(error, PlaitError) and error.code is not None:
            details["rpc.response.status_code"] = str(error.code)
        raise
    finally:
        if current is not None and token is not None:
            with _Guarded():
                detach(token)
                if "error.type" in details:
                    current.set_status(Status(StatusCode.ERROR))
                current.set_attributes(dict(details))
                current.end()


class OpenSpan:
    """A span whose start and end are reported apart, maybe in different contexts.

    Spans of this package that begin in its context until then are in it. It is not current for
    OpenTelemetry: the end may come in a copy of the context, where that could not be taken back.
    """

    def __init__(self, name: str, attributes: Attributes) -> None:
        self._began = time.monotonic()
        self._span: Span | None = None
        self._outer: Span | None = None
        self.details = dict[str, Any](attributes)
        """What is added at the end."""
        with _Guarded():
            self._outer = current_span()
            self._span = _tracer().start_span(name, attributes=attributes)
            _opened.set(self)

    def end(self, metric: str, error: BaseException | None = None) -> None:
        """End the span, and record its duration."""
        from opentelemetry.trace import Status, StatusCode  # noqa: PLC0415

        if error is not None:
            self.details["error.type"] = error_type(error)
        kept = {key: value for key, value in self.details.items() if key in _METRIC_ATTRIBUTES}
        record(metric, time.monotonic() - self._began, kept)
        ended, self._span = self._span, None
        if ended is None:
            return
        with _Guarded():
            if error is not None:
                ended.set_status(Status(StatusCode.ERROR))
            ended.set_attributes(self.details)
            ended.end()

    def context(self) -> Context | None:
        """Return the context of spans in it; `None` if it has ended, or there is one between."""
        from opentelemetry.trace import set_span_in_context  # noqa: PLC0415

        if self._span is None or current_span() is not self._outer:
            return None
        return set_span_in_context(self._span)


_opened: ContextVar[OpenSpan | None] = ContextVar("plait_open_span", default=None)

_failures: set[type[BaseException]] = set()


class _Guarded:
    """Logs what the provider raises, once for each class: it never ends what is traced."""

    def __enter__(self) -> None:
        """Begin what samplers, processors, readers, views or propagators may end."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        if isinstance(error, Exception) and type(error) not in _failures:
            _failures.add(type(error))
            logger.warning("OpenTelemetry failed, so spans or metrics are missing", exc_info=error)
        return isinstance(error, Exception)


@contextmanager
def measured(name: str, details: Mapping[str, Any]) -> Generator[None]:
    """Record the seconds of a block."""
    began = time.monotonic()
    failure: dict[str, str] = {}
    try:
        yield
    except BaseException as error:
        failure = {"error.type": error_type(error)}
        raise
    finally:
        kept = {key: value for key, value in details.items() if key in _METRIC_ATTRIBUTES}
        record(name, time.monotonic() - began, {**kept, **failure})


def record(metric: str, value: float, attributes: Mapping[str, Any]) -> None:
    """Record a value of a metric."""
    with _Guarded():
        _histogram(metric).record(value, dict(attributes))


_METRIC_ATTRIBUTES = frozenset(
    {"mcp.method.name", "gen_ai.operation.name", "gen_ai.tool.name", "error.type", "plait.server"}
    | {"gen_ai.provider.name", "gen_ai.request.model", "gen_ai.agent.name"}
)
"""The attributes with few values, which metrics have, too."""


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
    with _Guarded():
        current_span().set_attributes(dict(attributes))


def add_event(name: str, attributes: Attributes) -> None:
    """Add an event to the current span, if anything is traced."""
    if is_traced():
        with _Guarded():
            current_span().add_event(name, attributes)


def record_session(seconds: float, attributes: Attributes) -> None:
    """Record how long a session was open."""
    record("mcp.client.session.duration", seconds, attributes)


def trace_context() -> dict[str, str]:
    """Return the fields that pass the current span on to a server."""
    from opentelemetry.propagate import inject  # noqa: PLC0415

    fields: dict[str, str] = {}
    with _Guarded():
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
