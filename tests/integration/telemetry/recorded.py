"""What OpenTelemetry exported in a test."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Recorded:
    """What was exported."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.reader = InMemoryMetricReader()

    def ours(self, beginning: str = "") -> list[ReadableSpan]:
        """Return our spans, those whose names begin so, in the order in which they ended."""
        spans = self.exporter.get_finished_spans()
        return [one for one in spans if _is_ours(one) and one.name.startswith(beginning)]

    def spans(self) -> dict[str, ReadableSpan]:
        """Return our spans by name; of equal names, the last one."""
        return {span.name: span for span in self.ours()}

    @contextmanager
    def processed_by(self, processor: SpanProcessor) -> Generator[None]:
        """Add a processor to the provider for a while."""
        provider = trace.get_tracer_provider()
        assert isinstance(provider, TracerProvider)
        processors = provider._active_span_processor
        before = processors._span_processors
        provider.add_span_processor(processor)
        try:
            yield
        finally:
            processors._span_processors = before

    def points(self, metric: str) -> list[Any]:
        """Return the data points of a metric."""
        data = self.reader.get_metrics_data()
        assert data is not None
        return [
            point
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for one in scope.metrics
            if one.name == metric
            for point in one.data.data_points
        ]


def attributes(span: ReadableSpan) -> dict[str, Any]:
    """Return the attributes of a span."""
    return dict(span.attributes or {})


def _is_ours(span: ReadableSpan) -> bool:
    return span.instrumentation_scope is not None and span.instrumentation_scope.name == "plait"
