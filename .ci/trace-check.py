"""Looks at a trace of `items` items of queue `load`: `trace-check.py [--perfetto] FILE ITEMS`.

By itself it reads the Trace Event Format as its description has it, and loads the slices into SQLite, so that the
question is the same that Perfetto's trace_processor is asked: how many runs, and how many arrows lead to them?
Exit code 3: the answer is wrong. 1: Perfetto cannot be had.
"""

import collections
import json
import sqlite3
import sys


def fail(text):
    print(f"trace-check: {text}", file=sys.stderr)
    sys.exit(3)


def check(condition, text):
    if not condition:
        fail(text)


def is_count(value):
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def load(path):
    """Each event has what its phase demands; slices of one track are apart or inside of one another."""
    with open(path, encoding="utf-8") as file:
        document = json.load(file)
    check(isinstance(document, dict) and isinstance(document.get("traceEvents"), list), "no traceEvents")
    names, tracks = {}, collections.defaultdict(list)
    flows_out, flows_in, last = set(), set(), 0
    for event in document["traceEvents"]:
        phase = event.get("ph")
        check(phase in ("X", "M", "i", "C"), f"phase {phase}: {event}")
        check(isinstance(event.get("name"), str), f"no name: {event}")
        check(is_count(event.get("pid")) and is_count(event.get("tid")), f"no track: {event}")
        if phase == "M":
            check(event["name"] in ("process_name", "thread_name"), f"metadata: {event}")
            names[event["pid"], event["tid"], event["name"]] = event["args"]["name"]
            continue
        check(isinstance(event.get("ts"), (int, float)) and event["ts"] >= 0, f"no time: {event}")
        last = max(last, event["ts"])
        if phase == "i":
            check(event.get("s") == "t", f"an instant of no scope: {event}")
        if phase == "C":
            check(all(isinstance(value, (int, float)) for value in event["args"].values()), f"counter: {event}")
        if phase == "X":
            check(isinstance(event.get("dur"), (int, float)) and event["dur"] >= 0, f"no duration: {event}")
            tracks[event["pid"], event["tid"]].append((round(event["ts"] * 1000), round(event["dur"] * 1000), event))
            for flow, found in (("flow_out", flows_out), ("flow_in", flows_in)):
                if event.get(flow):
                    check(event["bind_id"] not in found, f"an arrow with two ends: {event}")
                    found.add(event["bind_id"])
    check(flows_in <= flows_out, "an arrow from nowhere")
    for track, slices in tracks.items():
        check((*track, "thread_name") in names, f"track {track} has no name")
        open_until = []
        for begin, length, event in sorted(slices, key=lambda entry: (entry[0], -entry[1])):
            while open_until and open_until[-1] <= begin:
                open_until.pop()
            check(not open_until or begin + length <= open_until[-1], f"slices overlap on track {track}: {event}")
            open_until.append(begin + length)
    groups = {pid: name for (pid, _, what), name in names.items() if what == "process_name"}
    table = sqlite3.connect(":memory:")
    table.execute("CREATE TABLE slice (grp TEXT, name TEXT, dur INT, queue TEXT, flow_in INT)")
    rows = (
        (groups[pid], event["name"], length, event["args"].get("queue"), int(bool(event.get("flow_in"))))
        for (pid, _), slices in tracks.items()
        for _, length, event in slices
    )
    table.executemany("INSERT INTO slice VALUES (?, ?, ?, ?, ?)", rows)
    return document, table


def alone(path, items):
    document, table = load(path)
    one = lambda query: table.execute(query).fetchone()[0]
    lost = document["otherData"]["lost_events"]
    check(lost == 0, f"{lost} events were lost")
    check(len(document["traceEvents"]) >= 4 * items, "fewer events than there were")
    for query in (
        "SELECT count(*) FROM slice WHERE queue = 'load' AND flow_in",
        "SELECT count(*) FROM slice WHERE queue = 'load' AND name = 'queue_work'",
        "SELECT count(*) FROM slice WHERE queue = 'load' AND grp = 'queues'",
    ):
        check(one(query) == items, f"{query}: {one(query)}, not {items}")
    print(f"{len(document['traceEvents'])} events, {items} runs with an arrow each: as it should be")


def perfetto(path, items):
    try:
        from perfetto.trace_processor import TraceProcessor

        processor = TraceProcessor(trace=path)
    except Exception as error:  # Whatever keeps it from being there.
        print(f"trace-check: no trace_processor: {type(error).__name__}: {str(error)[:200]}", file=sys.stderr)
        sys.exit(1)
    one = lambda query: next(iter(processor.query(query))).n
    queued = "SELECT count(*) AS n FROM slice WHERE name = 'queue_work'"
    arrows = "SELECT count(*) AS n FROM flow"
    wrong = "SELECT ifnull(sum(value), 0) AS n FROM stats WHERE severity = 'error'"
    for query, expected in ((queued, items), (arrows, items), (wrong, 0)):
        check(one(query) == expected, f"{query}: {one(query)}, not {expected}")
    print(f"trace_processor: {items} items and arrows: as it should be")


if __name__ == "__main__":
    arguments = [argument for argument in sys.argv[1:] if argument != "--perfetto"]
    (perfetto if "--perfetto" in sys.argv else alone)(arguments[0], int(arguments[1]))
