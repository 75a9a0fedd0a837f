"""What OpenTelemetry exported in a test."""

from __future__ import annotations

from typing import Any

from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Recorded:
    """What was exported."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.reader = InMemoryMetricReader()

    def spans(self) -> dict[str, ReadableSpan]:
        """Return our spans by name; of equal names, the last one."""
        ours = [span for span in self.exporter.get_finished_spans() if scope_of(span) == "plait"]
        return {span.name: span for span in ours}

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


def scope_of(span: ReadableSpan) -> str | None:
    """Return the name of the library that made a span."""
    return None if span.instrumentation_scope is None else span.instrumentation_scope.name
