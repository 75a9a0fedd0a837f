"""Providers of OpenTelemetry, for the tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import opentelemetry.metrics._internal as internal
import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from plait.telemetry import spans
from tests.integration.telemetry.recorded import Recorded


@pytest.fixture(scope="module")
def recorded() -> Iterator[Recorded]:
    """Set up the providers, which a program can do only once, and remove them again."""
    kept = Recorded()
    _forget_provider()  # a call of an earlier test may have asked for one
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept.exporter))
    trace.set_tracer_provider(provider)
    metrics.set_meter_provider(MeterProvider(metric_readers=[kept.reader]))
    yield kept
    # The MCP SDK keeps its tracer, and with it this provider, for the tests after these.
    provider._active_span_processor._span_processors = ()
    for module, name in ((trace, "_TRACER_PROVIDER"), (internal, "_METER_PROVIDER")):
        setattr(module, name, None)
        getattr(module, f"{name}_SET_ONCE")._done = False
    _forget_provider()


def _forget_provider() -> None:
    for kept_of_provider in (spans._tracer, spans._histogram):
        kept_of_provider.cache_clear()


@pytest.fixture(autouse=True)
def _empty(recorded: Recorded) -> None:
    recorded.exporter.clear()
