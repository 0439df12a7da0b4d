#!/usr/bin/env python3
"""The largest cycle of modules in each layer of the library, and what it may be at most; and that in the engine, which has
levels, no module imports one of a higher level.

A module is a file or folder directly in the layer; in a room of the engine, directly in the room. It needs another one if
it imports it, or calls a function that only the other one defines: methods of a type may be written beside those who use
them, so imports alone do not tell who calls whom. Tests may need anything.
"""
import re
import sys
from pathlib import Path

# Modules in the largest cycle. Only ever lowered.
MOST = {"api": 2, "observe": 2, "engine": 5, "record": 0, "detect": 0, "os": 3}
# Also names of closures and of the standard library's functions.
NOT_OURS = {"ended", "exists", "from_raw", "into_inner", "load", "write_str"}
# How the comments begin that engine.rs parts its modules by.
LEVELS = ("Tools and values", "What there is", "What is done")
# What there is has no rooms.
ROOMLESS = 1
SOURCES = Path("crates/cmwq/src")
CALL = re.compile(r"(?:\.|::)(\w+)\(|(?:\w::)(\w+)\)")


def code(path):
    """Without comments and tests."""
    text = re.sub(r"//.*", "", path.read_text())
    text = re.sub(r"#\[cfg\(test\)\][^;{]*;", "", text)
    return re.split(r"(?m)^#\[cfg\((?:all\()?test\b.*\n(?:pub\(crate\) )?mod tests? \{", text)[0]


def declared(file):
    """Modules that the file declares for others."""
    return re.findall(r"(?m)^pub\(crate\) mod (\w+);", file.read_text())


def rooms(layer):
    """Room to its modules. What its file keeps for itself (`mod name;`) is a part of that file."""
    if layer != "engine":
        return {}
    return {name: declared(SOURCES / layer / f"{name}.rs") for name, level in levels().items() if level != ROOMLESS}


def module_at(path, inside):
    """`queueing`, or in a room `item/queueing`, of the names of a path below the layer."""
    return "/".join(path[:2]) if path[1:] and path[1] in inside.get(path[0], ()) else path[0]


def modules(layer, inside):
    """Name to the code of its files, each with its path below the layer."""
    found = {}
    for path in sorted((SOURCES / layer).rglob("*.rs")):
        parts = path.relative_to(SOURCES / layer).with_suffix("").parts
        if "tests" not in parts:
            found.setdefault(module_at(parts, inside), []).append((code(path), parts))
    return found


def one_by_one(text):
    """`a::{b, c::{d, e}}` becomes `a::b, a::c::d, a::c::e`."""
    group = re.compile(r"((?:\w+::)+)\{([^{};]*)\}")
    while group.search(text):
        text = group.sub(lambda match: ", ".join(match[1] + name.strip() for name in match[2].split(",")), text)
    return text


def imported(layer, text, parts, inside):
    """What follows `crate::layer::`, or as many `super::` as there are, or the name of a room."""
    text = one_by_one(text)
    for match in re.finditer(rf"\bcrate::{layer}::([\w:]+)|(?<![\w:])((?:super::)+)([\w:]+)", text):
        above = parts[: -match[2].count("super")] if match[2] else ()
        yield module_at([*above, *(match[1] or match[3]).split("::")], inside)
    for room, names in inside.items():
        for name in re.findall(rf"\b{room}::(\w+)", text):
            if name in names:
                yield f"{room}/{name}"


def needs(layer, found, inside):
    """Who needs whom, and why."""
    elsewhere = set()
    for path in [*SOURCES.rglob("*.rs"), *Path("crates/cmwq-core/src").rglob("*.rs")]:
        if SOURCES / layer not in path.parents:
            elsewhere |= set(re.findall(r"\bfn (\w+)", path.read_text()))
    defined = {}
    for name, files in found.items():
        for text, _ in files:
            for function in re.findall(r"\bfn (\w+)", text):
                defined.setdefault(function, set()).add(name)
    edges = {name: {} for name in found}
    for name, files in found.items():
        for text, parts in files:
            for other in imported(layer, text, parts, inside):
                edges[name].setdefault(other, "imported")
            for function in {one or two for one, two in CALL.findall(text)} - elsewhere - NOT_OURS:
                if len(defined.get(function, ())) == 1:
                    edges[name].setdefault(*defined[function], f"calls {function}")
    return {a: {b: why for b, why in to.items() if b in found and b != a} for a, to in edges.items()}


def reached(edges, start):
    seen, left = set(), [start]
    while left:
        for other in edges[left.pop()]:
            if other not in seen:
                seen.add(other)
                left.append(other)
    return seen


def levels():
    """Module or room of the engine to its level, which are told apart by comments there, lowest first."""
    found, level = {}, None
    for line in (SOURCES / "engine.rs").read_text().splitlines():
        for number, words in enumerate(LEVELS):
            if line.startswith(f"// {words}"):
                level = number
        if match := re.match(r"pub\(crate\) mod (\w+);", line):
            found[match.group(1)] = level
    return found


def upwards(edges):
    level, of = levels(), lambda module: module.split("/")[0]
    return [(a, b) for a, to in edges.items() for b, why in to.items() if why == "imported" and level[of(b)] > level[of(a)]]


def main():
    failed = False
    for layer, most in MOST.items():
        inside = rooms(layer)
        edges = needs(layer, modules(layer, inside), inside)
        reach = {name: reached(edges, name) for name in edges}
        cycles = {frozenset(b for b in reach[a] if a in reach[b]) for a in edges}
        largest = max(cycles, key=len)
        for a, b in upwards(edges) if layer == "engine" else ():
            failed = True
            print(f"engine: {a} imports {b}, which is of a higher level (engine.rs)")
        if "--show" in sys.argv:
            print(f"{layer}: {len(largest)} of {len(edges)} modules in the largest cycle", *sorted(largest))
        if len(largest) > most:
            failed = True
            print(f"{layer} has a cycle of {len(largest)} modules ({most} at most):")
            for a in sorted(largest):
                for b, why in sorted(edges[a].items()):
                    if b in largest:
                        print(f"  {a} -> {b}: {why}")
    sys.exit(failed)


main()
