// Calls a mesh by the types that openapi-typescript generated from its document.
//
// Usage: node openapi.js URL, compiled beside the generated mesh.d.ts. Prints what it
// found as one line of JSON.
import createClient from "openapi-fetch";
import type { components, paths } from "./mesh.d.ts";

type Update = components["schemas"]["lf.a2a.v1.StreamResponse"];

async function* events<T>(body: ReadableStream<Uint8Array>): AsyncGenerator<T> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const piece of body) {
    const lines = (rest + decoder.decode(piece, { stream: true })).split("\n");
    rest = lines.pop()!;
    for (const line of lines) {
      if (line.startsWith("data: ")) yield JSON.parse(line.slice(6)) as T;
    }
  }
}

const say = (messageId: string, text: string) => ({
  message: { messageId, role: "ROLE_USER" as const, parts: [{ text }], metadata: { from: "ts" } },
});

const client = createClient<paths>({ baseUrl: process.argv[2] });
const agents = await client.GET("/mesh/v1/agents");
const sent = await client.POST("/message:send", { body: say("ts-1", "by TypeScript") });
const task = sent.data!.task!;
const again = await client.GET("/tasks/{id}", { params: { path: { id: task.id! } } });
const threads = await client.GET("/mesh/v1/threads");
const missing = await client.GET("/tasks/{id}", { params: { path: { id: "none" } } });
const stream = await client.POST("/message:stream", { body: say("ts-2", "as a stream"), parseAs: "stream" });
let heard = "";
for await (const e of events<Update>(stream.data!)) {
  for (const p of e.artifactUpdate?.artifact?.parts ?? []) heard += p.text ?? "";
}
console.log(JSON.stringify({
  agents: agents.data!.agents!.map((a) => a.name).sort(),
  said: task.artifacts![0].parts![0].text,
  state: again.data!.status!.state,
  thread: threads.data!.threads!.some((t) => t.threadId === task.contextId),
  code: missing.error!.error.code,
  reason: missing.error!.error.details[0].reason,
  heard,
  ids: stream.response.headers.get("content-type") === "text/event-stream",
}));
