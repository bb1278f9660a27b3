"""Feeds a node through the official SDK of OpenTelemetry: what is to be sent comes as JSON on
standard input.

{"protocol": "http" or "grpc", "address": "host:port", "gzip": flag, "cumulative": flag,
"exponential": flag, "producer": name, "operation": name, "rounds": [[nanoseconds, ..], ..]}. Each
round is recorded and exported by itself, with a counter, an up-down counter and a gauge beside it;
afterwards come three spans. Ends with an error when an export was not taken.
"""

import json
import sys
from typing import Any, Dict, Tuple

from opentelemetry.sdk.metrics import Counter, Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    MetricExporter,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.metrics.view import (
    ExplicitBucketHistogramAggregation,
    ExponentialBucketHistogramAggregation,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter

# Seconds, as the semantic conventions have them for durations of HTTP; 18 ms is a budget's limit.
BOUNDS = [0.005, 0.01, 0.018, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 1.0]
NEVER_MS = 3_600_000.0


def preferred(task: Dict[str, Any]) -> Dict[str, Any]:
    """How the exporter of metrics wants its histograms."""
    cumulative, delta = AggregationTemporality.CUMULATIVE, AggregationTemporality.DELTA
    temporality = cumulative if task["cumulative"] else delta
    explicit = ExplicitBucketHistogramAggregation(boundaries=BOUNDS)
    aggregation = ExponentialBucketHistogramAggregation() if task["exponential"] else explicit
    return {
        "preferred_temporality": {Counter: temporality, Histogram: temporality},
        "preferred_aggregation": {Histogram: aggregation},
    }


def exporters(task: Dict[str, Any]) -> Tuple[MetricExporter, SpanExporter]:
    """Both exporters, over one protocol."""
    if task["protocol"] == "http":
        from opentelemetry.exporter.otlp.proto.http import Compression
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        compression = Compression.Gzip if task["gzip"] else Compression.NoCompression
        base = f"http://{task['address']}/v1"
        metrics = OTLPMetricExporter(
            endpoint=f"{base}/metrics", compression=compression, **preferred(task)
        )
        return metrics, OTLPSpanExporter(endpoint=f"{base}/traces", compression=compression)
    import grpc
    from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import (
        OTLPMetricExporter as GrpcMetricExporter,
    )
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (
        OTLPSpanExporter as GrpcSpanExporter,
    )

    way = {
        "endpoint": task["address"],
        "insecure": True,
        "compression": grpc.Compression.Gzip if task["gzip"] else grpc.Compression.NoCompression,
    }
    return GrpcMetricExporter(**way, **preferred(task)), GrpcSpanExporter(**way)


def send_metrics(task: Dict[str, Any], resource: Resource, exporter: MetricExporter) -> bool:
    """Exports each round; true when all were taken."""
    reader = PeriodicExportingMetricReader(exporter, export_interval_millis=NEVER_MS)
    provider = MeterProvider(metric_readers=[reader], resource=resource, shutdown_on_exit=False)
    meter = provider.get_meter("otlp_client")
    histogram = meter.create_histogram(task["operation"], unit="s")
    counter = meter.create_counter("otlp_count")
    level = meter.create_up_down_counter("otlp_level")
    gauge = meter.create_gauge("otlp_gauge")
    taken = True
    for number, values_ns in enumerate(task["rounds"], start=1):
        for value_ns in values_ns:
            histogram.record(value_ns / 1e9, {"zone": "x", "deployment.stage": "blue"})
        counter.add(number, {"zone": "x"})
        level.add(2 if number % 2 else -1)
        gauge.set(-2.5 * number)
        taken = provider.force_flush() and taken
    provider.shutdown()
    return taken


def send_spans(resource: Resource, exporter: SpanExporter) -> bool:
    """Exports three spans of 1, 2 and 3 ms, the last one with an error, each by itself."""
    outcomes = []

    class Watched(SimpleSpanProcessor):
        """Exports as its parent does, and keeps what came of it."""

        def on_end(self, span: Any) -> None:
            outcomes.append(exporter.export([span]).name)

    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(Watched(exporter))
    tracer = provider.get_tracer("otlp_client")
    from opentelemetry.trace import StatusCode

    start_ns = 1_700_000_000_000_000_000
    for number in (1, 2, 3):
        span = tracer.start_span(f"GET /item/{number}", start_time=start_ns)
        span.set_attribute("http.request.method", "GET")
        if number == 3:
            span.set_status(StatusCode.ERROR)
        span.end(end_time=start_ns + number * 1_000_000)
    provider.shutdown()
    return outcomes == ["SUCCESS"] * 3


def main() -> None:
    """Sends everything and ends once it was taken."""
    task = json.load(sys.stdin)
    resource = Resource.create(
        {"service.name": "shop", "service.instance.id": task["producer"]}
    )
    metrics, spans = exporters(task)
    if not send_metrics(task, resource, metrics):
        sys.exit("an export of metrics was not taken")
    if not send_spans(resource, spans):
        sys.exit("an export of spans was not taken")


if __name__ == "__main__":
    main()
