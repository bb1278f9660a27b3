"""Writes the measurements as Markdown. Computes nothing new."""

from speed.targets import text, word


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


verdict = word


def bullets(verdicts):
    return [f"- {text(one)}" for one in verdicts]


def left_out(skipped):
    return ["", *(f"Left out: {name} ({why})." for name, why in skipped.items())] if skipped else []


def microseconds(value):
    return f"{value:.3f}" if value < 1 else f"{value:.2f}"


def percent(share):
    return f"{share * 100:.2g} %" if share >= 0.001 else "< 0.1 %"


def per_second(rate):
    return f"{rate / 1e6:.2g} M/s" if rate >= 1e6 else f"{rate / 1e3:.0f} k/s"


def times(ratio):
    return "-" if ratio is None else f"{ratio:.2f} x"


def machine(facts):
    load = f"load {facts['load']:.2f} at the start, {facts['load_at_end']:.2f} at the end"
    lines = [
        f"{facts['date']}, commit {facts['commit']}, {facts['cores']} x {facts['cpu']},",
        f"{facts['kernel']}, net.core.rmem_max {facts['rmem_max']}, {load}.",
    ]
    if facts["busy"]:
        lines.append("The machine was busy with other work: trust the ratios, not the figures.")
    return lines


def intake(result):
    servers = result["servers"]
    rows = []
    for point in result["points"]:
        row = [f"{per_second(point['rate'])}, {point['packed']} a datagram"]
        row += [cost(point["figures"][server["name"]]) for server in servers]
        row += [times(point["beside_best_peer"]), times(point["beside_best_floor"])]
        rows.append([*row, judged(point["verdict"])])
    heads = [f"{server['name']} {server['version']}".strip() for server in servers]
    head = ["load", *heads, "node / best peer", "node / best loop", "target"]
    return [
        "CPU microseconds that the receiving process spends on a sample, 10 series of timers; in",
        "brackets the share of datagrams that the kernel dropped, where it dropped any.",
        "",
        *table(head, rows),
        "",
        "Highest rate found at which the kernel dropped nothing, and the cost of a sample there",
        "(`>=`: the load could send no more).",
        "",
        *highest(result["highest"]),
        "",
        f"Medians of {result['rounds']} rounds of {result['seconds']} s; in each round all servers",
        "take their turn at every load. The loops receive and drop: one with `recv`, one with",
        "`recvmmsg` and a rest of 5 ms when there is nothing more. `~`: the load sent less than it",
        f"should. Behind the node: {result['broker']}. Of the values that were sent and that the",
        f"kernel did not drop, the node counted all but {result['unaccounted']}.",
        "",
        *bullets(result["targets"]),
        *left_out(result["skipped"]),
    ]


def judged(one):
    return f"{one['relation']} {one['bound']:g} {one['unit']}: {word(one['met'])}"


def cost(found):
    text = microseconds(found["us_per_sample"])
    if found["dropped"]:
        text += f" ({percent(found['dropped'])})"
    return text if found["kept_up"] else "~" + text


def highest(found):
    names = list(dict.fromkeys(one["server"] for one in found))
    rows = []
    for packed in dict.fromkeys(one["packed"] for one in found):
        here = {one["server"]: one for one in found if one["packed"] == packed}
        ours = here[names[0]]
        row = [f"{packed} a datagram", *(top(here[name]) for name in names)]
        rows.append([*row, judged(ours["verdict"])])
    return table(["load", *names, "target"], rows)


def top(found):
    if found["limit"] == "none":
        return "drops at any"
    least = ">= " if found["limit"] == "load" else ""
    return f"{least}{per_second(found['achieved'])}, {microseconds(found['us_per_sample'])} us"


def resident(result):
    rows = []
    for name, row in result["rows"].items():
        idle, active = row["idle"], row["active"]
        shares = [row["idle_cpu"], *row["cpu"].values()]
        rows.append(
            [
                f"{name} {row['version']}".strip(),
                mib(idle["anonymous"]),
                mib(idle["pss"]),
                mib(idle["rss"]),
                mib(active["anonymous"]),
                mib(active["pss"]),
                *(f"{share * 100:.2f} %" for share in shares),
            ]
        )
    head = ["process", "anonymous idle", "PSS idle", "RSS idle"]
    head += ["anonymous with 100 series", "PSS with 100 series", "CPU idle"]
    head += ["CPU at 1 000/s, 1 a datagram", "CPU at 1 000/s, 20 a datagram"]
    return [
        f"Memory in MiB after {result['idle_seconds']} s without load and after load; CPU as a",
        f"share of one core, medians of {result['rounds']} rounds of {result['seconds']} s, all",
        "processes at the same time. The nodes and node_exporter read the machine's hardware once",
        "a second, the other agents do not; node_exporter gets no samples. The node with OTLP gets",
        "a body a second instead, with a point of each series, by HTTP and by gRPC in turn. An",
        "aggregator beside them confirms what they send. The node with a history gets thirty samples",
        f"of three operations a second: {result['history']['bytes_a_day'] / 1e6:.0f} MB a day, and",
        f"{result['history']['cpu'] * 100:.3f} % of a core for the thread that writes it.",
        "",
        *table(head, rows),
        "",
        *bullets(result["targets"]),
        *left_out(result["skipped"]),
    ]


def hardware(result):
    rows = []
    for row in result["rows"]:
        figures = [("cpu_us", "{:.0f} us"), ("median_ms", "{:.2f} ms"), ("worst_ms", "{:.2f} ms")]
        cells = (("-" if row[key] is None else text.format(row[key])) for key, text in figures)
        rows.append([row["name"], *cells])
    return [
        f"All at 1 Hz for {result['seconds']} s at the same time, without load: CPU and duration of a",
        "sample. Two threads read a sample at the same time, so it takes as long as the slower one.",
        "The GPUs are a stand-in that answers at once.",
        "",
        *table(["what", "CPU a sample", "median", "worst"], rows),
        "",
        f"A sample has {result['readings']} readings; a page of node_exporter {result['version']}",
        f"has {result['figures']} figures, by its collectors {', '.join(result['collectors'])}.",
        "",
        *bullets(result["targets"]),
    ]


def otlp(result):
    names = list(result["servers"])
    rows = []
    for row in result["rows"]:
        cells = [a_second(row["ns"][name]) for name in names]
        cells += [times(row["beside"]), a_second(row["decoding"])]
        kind = f"{KINDS[row['kind']]}, {PROTOCOLS[row['protocol']]}"
        rows.append([kind, f"{row['bytes']:.0f}", *cells])
    heads = [f"{name} {version}".strip() for name, version in result["servers"].items()]
    head = ["points", "bytes each", *heads, "cost, node / other", "decoding alone"]
    return [
        "Points per second of the receiver's CPU time, bodies of 1 000 points of as many streams,",
        "delta. Rotel, a collector, reads and drops them; the node counts them in histograms. The",
        "last column is what protobuf's own decoder in C does in a loop, without a server.",
        "",
        *table(head, rows),
        "",
        f"Medians of {result['rounds']} rounds of {result['seconds']} s, one request at a time; of",
        f"the points that were sent the node counted all but {result['unaccounted']}. The core alone,",
        "in one thread, with cumulative points unless the row names delta:",
        "",
        "```text",
        *result["core"],
        "```",
        "",
        *bullets(result["targets"]),
        *left_out(result["skipped"]),
    ]


def answers(result):
    rows = []
    for row in result["rows"]:
        for name, found in row["figures"].items():
            cells = [f"{found['per_second']:.0f}", *(f"{found[key]:.2f} ms" for key in WAITS)]
            rows.append([str(row["connections"]), name, *cells, f"{found['cpu_us']:.0f} us"])
    head = ["connections", "node", "answers a second", "median", "99 %", "longest"]
    rates = ", ".join(f"{row['rate']:.2f} x over {row['connections']}" for row in result["rows"])
    return [
        "OTLP bodies of one point over HTTP, one at a time on each connection; the sending loop takes",
        f"part of the time. With a spool a node answers {rates} of what it answers without.",
        "",
        *table([*head, "CPU an answer"], rows),
        "",
        f"Medians of {result['rounds']} rounds of {result['seconds']} s; of the points that were sent",
        f"the nodes counted all but {result['unaccounted']}.",
        "",
        *bullets([row["target"] for row in result["rows"]]),
    ]


WAITS = ("p50_ms", "p99_ms", "max_ms")
KINDS = {
    "histogram": "15 explicit buckets",
    "exponential": "160 exponential buckets",
    "sum": "a sum",
}
PROTOCOLS = {"http": "HTTP", "grpc": "gRPC", "json": "HTTP, JSON"}


def a_second(ns):
    return "-" if ns is None else per_second(1e9 / ns)


def mib(kib):
    return f"{kib / 1024:.1f}"


def client(result):
    best = min((row["ns"] for row in result["rows"] if row["other"]), default=None)
    rows = []
    for row in result["rows"]:
        beside = times(best and row["ns"] / best)
        rows.append([row["name"], f"{row['ns']:.1f}", beside])
    lines = table(["what", "ns", "beside the cheapest other"], rows)
    if "versions" in result:
        versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
        lines += ["", f"With {versions}."]
    return [*lines, "", *bullets(result["targets"])]


SECTIONS = {
    "rust": ("A record in Rust", client),
    "intake": ("DogStatsD intake", intake),
    "python": ("A timed call in Python", client),
    "resident": ("At rest", resident),
    "hardware": ("A sample of the hardware", hardware),
    "otlp": ("OTLP intake", otlp),
    "answers": ("Answers", answers),
}


MARK = "<!-- What node/bench/run --only {} printed {} here. -->"


def document(report):
    lines = machine(report["machine"])
    for name, (title, _) in SECTIONS.items():
        if name in report["sections"]:
            lines += ["", f"### {title}", "", *section(report, name)]
    return "\n".join(lines)


def section(report, name):
    found = report["sections"][name]
    return [f"Not measured: {found['failed']}"] if "failed" in found else SECTIONS[name][1](found)


def written(text, report):
    """The page with what was measured between the marks of each section; the rest keeps its figures."""
    for name, found in report["sections"].items():
        if "failed" in found:
            continue
        begin, end = (MARK.format(name, word) for word in ("begins", "ends"))
        before, rest = text.split(begin)
        after = rest.split(end)[1]
        # Sections are measured in different runs, so each has its machine and date.
        lines = ["", *machine(report["machine"]), "", *section(report, name), ""]
        text = "\n".join([before + begin, *lines, end + after])
    return text
