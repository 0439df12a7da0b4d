"""Looks at the trace of `bench/loads/src/bin/trace_load.rs`: `trace-check.py FILE ITEMS`.

Reads the Trace Event Format as its description has it, an event a line, and asks what a user would ask of the trace, where the
answer is known: every fourth item was on queue `quarter`, the rest on `load`.
"""

import collections
import json
import sys


# Called only where something is wrong: to put an event into words takes longer than to look at it.
def fail(text):
    print(f"trace-check: {text}", file=sys.stderr)
    sys.exit(1)


def events(path):
    """The events, and then what follows them; the lines together are one JSON document if each is what is expected here."""
    with open(path, encoding="utf-8") as file:
        first = file.readline()
        head = json.loads(first + "]}")
        if head.get("traceEvents") != []:
            fail(f"no traceEvents: {first}")
        line = file.readline()
        while line.startswith("{"):
            after = file.readline()
            ends_so = ",\n" if after.startswith("{") else "}\n"
            if not line.endswith(ends_so):
                fail(f"no comma, or one too many: {line}")
            yield json.loads(line[:-2] if ends_so[0] == "," else line)
            line = after
        rest = json.loads('{"traceEvents":[' + line + file.read())
        yield {"ph": "end", **rest}


def is_count(value):
    return type(value) is int and value >= 0


def load(path):
    """Each event has what its phase demands. Slices by track, arrows, names, and what the writer says of itself."""
    names, tracks, count = {}, collections.defaultdict(list), 0
    flows_out, flows_in = {}, {}
    for event in events(path):
        phase = event["ph"]
        if phase == "end":
            return count, names, tracks, flows_out, flows_in, event["otherData"]
        count += 1
        name, pid, tid = event.get("name"), event.get("pid"), event.get("tid")
        if type(name) is not str:
            fail(f"no name: {event}")
        if not (is_count(pid) and is_count(tid)):
            fail(f"no track: {event}")
        if phase == "M":
            if name not in ("process_name", "thread_name"):
                fail(f"metadata: {event}")
            names[pid, tid, name] = event["args"]["name"]
            continue
        begin = event.get("ts")
        if not (type(begin) in (int, float) and begin >= 0):
            fail(f"no time: {event}")
        if phase == "X":
            length = event.get("dur")
            if not (type(length) in (int, float) and length >= 0):
                fail(f"no duration: {event}")
            begin, queue = round(begin * 1000), event["args"].get("queue")
            tracks[pid, tid].append((begin, -round(length * 1000), name, queue))
            for end, found in (("flow_out", flows_out), ("flow_in", flows_in)):
                if event.get(end):
                    if event["bind_id"] in found:
                        fail(f"an arrow with two ends of a kind: {event}")
                    found[event["bind_id"]] = (begin, queue)
        elif phase == "i":
            if event.get("s") != "t":
                fail(f"an instant of no scope: {event}")
        else:
            if phase != "C":
                fail(f"phase {phase}: {event}")
            if any(type(value) not in (int, float) for value in event["args"].values()):
                fail(f"counter: {event}")
    fail("it has no end")


def check_nesting(track, slices):
    """Slices of one track are apart, or inside of one another."""
    open_until = []
    for begin, length, name, _ in sorted(slices, key=lambda found: found[:2]):
        end = begin - length
        while open_until and open_until[-1] <= begin:
            open_until.pop()
        if open_until and end > open_until[-1]:
            fail(f"slices overlap on track {track}: {name} at {begin} ns")
        open_until.append(end)


def main(path, items):
    count, names, tracks, flows_out, flows_in, said = load(path)
    if said["lost_events"] != 0:
        fail(f"{said['lost_events']} events were lost")
    if count < 4 * items:
        fail(f"{count} events are fewer than there were")
    groups = {pid: name for (pid, _, what), name in names.items() if what == "process_name"}
    queued, ran, in_queues, on_cpus = (collections.Counter() for _ in range(4))
    for (pid, tid), slices in tracks.items():
        if (pid, tid, "thread_name") not in names:
            fail(f"track {(pid, tid)} has no name")
        check_nesting((pid, tid), slices)
        group = groups[pid]
        counter = {"queues": in_queues, "CPUs": on_cpus}.get(group, ran)
        for _, _, name, queue in slices:
            (queued if name == "queue_work" else counter)[queue] += 1
    expected = {"load": items - items // 4, "quarter": items // 4}
    arrows = collections.Counter(queue for _, queue in flows_in.values())
    for what, counter in (("queued", queued), ("ran", ran), ("in a queue's track", in_queues), ("with an arrow", arrows)):
        found = {queue: counter[queue] for queue in expected}
        if found != expected:
            fail(f"items {what}: {found}, not {expected}")
    for queue, number in expected.items():
        if on_cpus[queue] < number:
            fail(f"{on_cpus[queue]} of {number} runs of {queue} were on a CPU")
    if not flows_in.keys() <= flows_out.keys():
        fail("an arrow from nowhere")
    for flow, (end, queue) in flows_in.items():
        begin, of_queue = flows_out[flow]
        if begin > end or of_queue != queue:
            fail(f"arrow {flow} leads from {of_queue} at {begin} ns to {queue} at {end} ns")
    print(f"{count} events of {len(tracks)} tracks; {expected} items queued, run, with an arrow each: as it should be")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
