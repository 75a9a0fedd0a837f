import asyncio

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from plait import Toolbox

EXPORTER = InMemorySpanExporter()  # or OTLPSpanExporter(), from opentelemetry-exporter-otlp


async def main() -> None:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(EXPORTER))
    trace.set_tracer_provider(provider)

    async with Toolbox({"time": {"command": "mcp-server-time"}}) as box:
        await box.call("time", "get_current_time", {"timezone": "UTC"})

    for span in EXPORTER.get_finished_spans():
        if span.name.endswith("get_current_time") and span.instrumentation_scope is not None:
            print(span.instrumentation_scope.name, span.name, span.kind.name)


asyncio.run(main())
