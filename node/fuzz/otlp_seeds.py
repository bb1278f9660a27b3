"""Writes seeds/otlp/: bodies of the official OpenTelemetry SDK, for tests and fuzzers.

    pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-common==1.45.2
    python3 node/fuzz/otlp_seeds.py

Times differ with each run; what the tests ask for does not.
"""

import base64
import json
import pathlib

from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.metrics import Counter, Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, InMemoryMetricReader
from opentelemetry.sdk.metrics.view import (
    ExplicitBucketHistogramAggregation,
    ExponentialBucketHistogramAggregation,
    View,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Status, StatusCode

SEEDS = pathlib.Path(__file__).parent / "seeds" / "otlp"
RESOURCE = Resource({"service.name": "shop", "service.instance.id": "i-1", "tags": ["a", "b"]})


def write(name, request):
    SEEDS.mkdir(exist_ok=True)
    (SEEDS / f"{name}.pb").write_bytes(request.SerializeToString())
    tree = MessageToDict(request, use_integers_for_enums=True)
    text = json.dumps(with_hexadecimal_ids(tree), separators=(",", ":"))
    (SEEDS / f"{name}.json").write_text(text)


def with_hexadecimal_ids(tree):
    """OTLP's JSON has ids in hexadecimal, where Protocol Buffers' own has base64."""
    if isinstance(tree, list):
        return [with_hexadecimal_ids(item) for item in tree]
    if not isinstance(tree, dict):
        return tree
    ids = {"traceId", "spanId", "parentSpanId"}
    return {
        key: base64.b64decode(value).hex() if key in ids else with_hexadecimal_ids(value)
        for key, value in tree.items()
    }


def metrics(name, temporality, aggregation):
    preferred = {Counter: temporality, Histogram: temporality}
    reader = InMemoryMetricReader(preferred_temporality=preferred)
    views = [View(instrument_name="*.duration", aggregation=aggregation)]
    provider = MeterProvider([reader], RESOURCE, views=views)
    meter = provider.get_meter("shop.web", "1.2", attributes={"scope": 1})
    duration = meter.create_histogram("http.server.request.duration", unit="s")
    for route, seconds in [("/a", [0.004, 0.02, 0.02, 0.3]), ("/b", [1.5])]:
        for value in seconds:
            duration.record(value, {"http.route": route, "http.response.status_code": 200})
    meter.create_counter("jobs", unit="1").add(3, {"kind": "x"})
    meter.create_up_down_counter("queue").add(-2)
    meter.create_gauge("load").set(0.5, {"cpu": True})
    write(name, encode_metrics(reader.get_metrics_data()))


def traces():
    exporter = InMemorySpanExporter()
    provider = TracerProvider(resource=RESOURCE)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("shop.web")
    first = 1_700_000_000_000_000_000
    for n, (name, millis) in enumerate([("GET /a", 20), ("GET /b", 40), ("load", 7)]):
        span = tracer.start_span(name, start_time=first + n, attributes={"http.route": name[4:]})
        if name == "GET /b":
            span.set_status(Status(StatusCode.ERROR, "gone"))
            span.add_event("retried")
        span.end(end_time=first + n + millis * 1_000_000)
    write("spans", encode_spans(exporter.get_finished_spans()))


if __name__ == "__main__":
    explicit = ExplicitBucketHistogramAggregation([0.005, 0.01, 0.05, 0.1, 0.5])
    metrics("delta_explicit", AggregationTemporality.DELTA, explicit)
    exponential = ExponentialBucketHistogramAggregation(max_size=20)
    metrics("cumulative_exponential", AggregationTemporality.CUMULATIVE, exponential)
    traces()
