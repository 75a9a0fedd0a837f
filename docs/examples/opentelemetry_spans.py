import asyncio

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from plait import Toolbox
from plait.testing import server_stdio_config

EXPORTER = InMemorySpanExporter()  # or OTLPSpanExporter(), from opentelemetry-exporter-otlp


async def main() -> None:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(EXPORTER))
    trace.set_tracer_provider(provider)

    async with Toolbox({"sums": server_stdio_config()}) as box:
        await box.call("sums", "add_numbers", {"a": 20, "b": 22})

    for span in EXPORTER.get_finished_spans():
        if span.name.endswith("add_numbers") and span.instrumentation_scope is not None:
            print(span.instrumentation_scope.name, span.name, span.kind.name)


asyncio.run(main())
