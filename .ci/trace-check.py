"""Looks at the trace of `examples/trace_load.rs`: `trace-check.py FILE ITEMS`.

Reads the Trace Event Format as its description has it, an event a line, and asks what a user would ask of the trace, where the
answer is known: every fourth item was on queue `quarter`, the rest on `load`.
"""

import collections
import json
import sys


def check(condition, text):
    if not condition:
        print(f"trace-check: {text}", file=sys.stderr)
        sys.exit(1)


def events(path):
    """The events, and then what follows them; the lines together are one JSON document if each is what is expected here."""
    with open(path, encoding="utf-8") as file:
        first = file.readline()
        head = json.loads(first + "]}")
        check(head.get("traceEvents") == [], f"no traceEvents: {first}")
        line = file.readline()
        while line.startswith("{"):
            after = file.readline()
            ends_so = ",\n" if after.startswith("{") else "}\n"
            check(line.endswith(ends_so), f"no comma, or one too many: {line}")
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
        check(type(name) is str, f"no name: {event}")
        check(is_count(pid) and is_count(tid), f"no track: {event}")
        if phase == "M":
            check(name in ("process_name", "thread_name"), f"metadata: {event}")
            names[pid, tid, name] = event["args"]["name"]
            continue
        begin = event.get("ts")
        check(type(begin) in (int, float) and begin >= 0, f"no time: {event}")
        if phase == "X":
            length = event.get("dur")
            check(type(length) in (int, float) and length >= 0, f"no duration: {event}")
            begin, queue = round(begin * 1000), event["args"].get("queue")
            tracks[pid, tid].append((begin, -round(length * 1000), name, queue))
            for end, found in (("flow_out", flows_out), ("flow_in", flows_in)):
                if event.get(end):
                    check(event["bind_id"] not in found, f"an arrow with two ends of a kind: {event}")
                    found[event["bind_id"]] = (begin, queue)
        elif phase == "i":
            check(event.get("s") == "t", f"an instant of no scope: {event}")
        else:
            check(phase == "C", f"phase {phase}: {event}")
            check(all(type(value) in (int, float) for value in event["args"].values()), f"counter: {event}")
    check(False, "it has no end")


def check_nesting(track, slices):
    """Slices of one track are apart, or inside of one another."""
    open_until = []
    for begin, length, name, _ in sorted(slices, key=lambda found: found[:2]):
        end = begin - length
        while open_until and open_until[-1] <= begin:
            open_until.pop()
        check(not open_until or end <= open_until[-1], f"slices overlap on track {track}: {name} at {begin} ns")
        open_until.append(end)


def main(path, items):
    count, names, tracks, flows_out, flows_in, said = load(path)
    check(said["lost_events"] == 0, f"{said['lost_events']} events were lost")
    check(count >= 4 * items, f"{count} events are fewer than there were")
    groups = {pid: name for (pid, _, what), name in names.items() if what == "process_name"}
    queued, ran, in_queues, on_cpus = (collections.Counter() for _ in range(4))
    for (pid, tid), slices in tracks.items():
        check((pid, tid, "thread_name") in names, f"track {(pid, tid)} has no name")
        check_nesting((pid, tid), slices)
        group = groups[pid]
        counter = {"queues": in_queues, "CPUs": on_cpus}.get(group, ran)
        for _, _, name, queue in slices:
            (queued if name == "queue_work" else counter)[queue] += 1
    expected = {"load": items - items // 4, "quarter": items // 4}
    arrows = collections.Counter(queue for _, queue in flows_in.values())
    for what, counter in (("queued", queued), ("ran", ran), ("in a queue's track", in_queues), ("with an arrow", arrows)):
        found = {queue: counter[queue] for queue in expected}
        check(found == expected, f"items {what}: {found}, not {expected}")
    for queue, number in expected.items():
        check(on_cpus[queue] >= number, f"{on_cpus[queue]} of {number} runs of {queue} were on a CPU")
    check(flows_in.keys() <= flows_out.keys(), "an arrow from nowhere")
    for flow, (end, queue) in flows_in.items():
        begin, of_queue = flows_out[flow]
        check(begin <= end and of_queue == queue, f"arrow {flow} leads from {of_queue} at {begin} ns to {queue} at {end} ns")
    print(f"{count} events of {len(tracks)} tracks; {expected} items queued, run, with an arrow each: as it should be")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
