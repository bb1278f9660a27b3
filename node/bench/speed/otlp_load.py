"""Posts OTLP metrics, over HTTP or gRPC, and prints the outcome as JSON.

Run by a Python that has opentelemetry-proto and grpcio. A body is built once; only its times are
replaced before it is sent, so that a sender costs little and each point is new. Sends the next
when the last is answered, or this many a second. With --decode, prints nanoseconds that protobuf's
own decoder, which is C, takes for a point of each kind.
"""

import argparse
import http.client
import json
import time

import grpc
from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as service
from opentelemetry.proto.metrics.v1 import metrics_pb2 as metrics

# Times of the body as built, to be found and replaced.
START, TIME = 0x1717171717171717, 0x1727272727272727
# OpenTelemetry's bounds for the duration of a request, in seconds.
BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
EXPONENTIAL_BUCKETS = 160
TYPES = {"http": "application/x-protobuf", "json": "application/json"}
METHOD = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"


def counts(buckets):
    """A few samples in each bucket."""
    return [1 + n % 4 for n in range(buckets)]


def point(kind, data, number):
    one = data.data_points.add(start_time_unix_nano=START, time_unix_nano=TIME)
    route = f"/api/v1/items/{number}"
    for key, text in (("http.request.method", "GET"), ("http.route", route), ("zone", "a")):
        one.attributes.add(key=key).value.string_value = text
    if kind == "sum":
        one.as_double = 1.5
        return
    buckets = len(BOUNDS) + 1 if kind == "histogram" else EXPONENTIAL_BUCKETS
    filled = counts(buckets)
    one.count, one.sum = sum(filled), 0.2 * sum(filled)
    if kind == "histogram":
        one.explicit_bounds.extend(BOUNDS)
        one.bucket_counts.extend(filled)
    else:
        # Sixteen buckets for each doubling, ten doublings from a millisecond on.
        one.scale, one.positive.offset = 4, -160
        one.positive.bucket_counts.extend(filled)


def request(kind, points):
    """One metric of a second's delta points."""
    message = service.ExportMetricsServiceRequest()
    resource = message.resource_metrics.add()
    resource.resource.attributes.add(key="service.name").value.string_value = "shop"
    metric = resource.scope_metrics.add().metrics.add(name=f"bench.{kind}", unit="s")
    data = {
        "histogram": metric.histogram,
        "exponential": metric.exponential_histogram,
        "sum": metric.sum,
    }[kind]
    data.aggregation_temporality = metrics.AGGREGATION_TEMPORALITY_DELTA
    if kind == "sum":
        data.is_monotonic = True
    for number in range(points):
        point(kind, data, number)
    return message


class Bodies:
    """The body of a kind, at any time."""

    def __init__(self, kind, points, is_json):
        message = request(kind, points)
        if is_json:
            self.body = json_format.MessageToJson(
                message, indent=None, use_integers_for_enums=True
            ).encode()
            self.write = lambda number: b"%d" % number
        else:
            self.body = message.SerializeToString()
            self.write = lambda number: number.to_bytes(8, "little")
        self.last = time.time_ns()

    def next(self):
        now = time.time_ns()
        times = ((START, self.last), (TIME, now))
        self.last = now
        body = self.body
        for mark, moment in times:
            body = body.replace(self.write(mark), self.write(moment))
        return body


def poster(protocol, to):
    """A function that posts a body and gives the points that were refused."""
    if protocol == "grpc":
        call = grpc.insecure_channel(to).unary_unary(METHOD)
        return lambda body: refused(call(body, timeout=30))
    connection = http.client.HTTPConnection(to, timeout=30)

    def post(body):
        connection.request("POST", "/v1/metrics", body, {"content-type": TYPES[protocol]})
        answer = connection.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise OSError(f"{answer.status}: {content[:200]}")
        if protocol == "json":
            partial = json.loads(content or "{}").get("partialSuccess") or {}
            return partial.get("rejectedDataPoints", 0)
        return refused(content)

    return post


def refused(content):
    answer = service.ExportMetricsServiceResponse.FromString(content)
    return answer.partial_success.rejected_data_points


def load(options):
    bodies = Bodies(options.kind, options.points, options.protocol == "json")
    post = poster(options.protocol, options.to)
    begun = time.monotonic()
    requests = lost = 0
    while (spent := time.monotonic() - begun) < options.seconds:
        if options.rate and requests > spent * options.rate:
            time.sleep(0.01)
            continue
        lost += int(post(bodies.next()))
        requests += 1
    return {
        "requests": requests,
        "points": requests * options.points,
        "refused": lost,
        "bytes": len(bodies.body),
        "seconds": time.monotonic() - begun,
    }


def decoding(points):
    """Nanoseconds a point, the median of some rounds, by kind."""
    found = {}
    for kind in ("histogram", "exponential", "sum"):
        body = request(kind, points).SerializeToString()
        rounds = []
        for _ in range(30):
            begun = time.process_time_ns()
            service.ExportMetricsServiceRequest.FromString(body)
            rounds.append(time.process_time_ns() - begun)
        found[kind] = sorted(rounds)[len(rounds) // 2] / points
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=["histogram", "exponential", "sum"], default="histogram")
    parser.add_argument("--protocol", choices=["http", "json", "grpc"], default="http")
    parser.add_argument("--to", help="host:port")
    parser.add_argument("--points", type=int, default=1_000, help="in a body")
    parser.add_argument("--rate", type=float, help="bodies a second; as many as it takes without")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--decode", action="store_true")
    options = parser.parse_args()
    print(json.dumps(decoding(options.points) if options.decode else load(options)))


if __name__ == "__main__":
    main()
