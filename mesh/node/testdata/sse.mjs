// Sends a message to the mesh and reads the answer as server-sent events.
//
// Usage: sse.mjs BASE-URL TEXT PIECES. After so many pieces of output it drops
// the connection, says so, and resumes the stream with Last-Event-ID. It needs
// nothing but the built-in fetch.

const [base, text, most] = process.argv.slice(2);
const out = { Before: "", After: "", Stored: "", State: "", IDs: [] };
let last, task;
let pieces = 0;

async function call(path, init) {
  const resp = await fetch(base + path, init);
  if (!resp.ok) throw new Error(`${path}: ${resp.status} ${await resp.text()}`);
  return resp;
}

// events yields [id, data] of each event.
async function* events(body) {
  let open = "";
  for await (const chunk of body.pipeThrough(new TextDecoderStream())) {
    open += chunk;
    for (let end; (end = open.indexOf("\n\n")) >= 0; open = open.slice(end + 2)) {
      const fields = {};
      for (const line of open.slice(0, end).split("\n")) {
        const at = line.indexOf(": ");
        if (at > 0) fields[line.slice(0, at)] = line.slice(at + 2);
      }
      if (fields.data) yield [Number(fields.id), JSON.parse(fields.data)];
    }
  }
}

const textOf = (artifact) => artifact.parts.map((p) => p.text ?? "").join("");

// read reads until the stream ends or has had so many pieces.
async function read(resp, into, until) {
  for await (const [id, event] of events(resp.body)) {
    last = id;
    if (event.task) {
      task = event.task.id;
      continue;
    }
    out.IDs.push(id);
    if (event.statusUpdate) out.State = event.statusUpdate.status.state;
    if (event.artifactUpdate) {
      out[into] += textOf(event.artifactUpdate.artifact);
      if (++pieces === until) return;
    }
  }
}

const message = { messageId: "m-node", role: "ROLE_USER", parts: [{ text }] };
await read(
  await call("/message:stream", {
    method: "POST",
    headers: { "Content-Type": "application/json", Accept: "text/event-stream" },
    body: JSON.stringify({ message }),
  }),
  "Before",
  Number(most),
); // leaving the loop cancels the request
console.log("dropped");

await read(
  await call(`/tasks/${task}:subscribe`, { headers: { Accept: "text/event-stream", "Last-Event-ID": String(last) } }),
  "After",
  -1,
);
const stored = await (await call(`/tasks/${task}`)).json();
out.Stored = stored.artifacts.map(textOf).join("");
console.log(JSON.stringify(out));
process.exit(0);
