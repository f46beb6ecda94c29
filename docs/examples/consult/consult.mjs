// Asks an agent that has several others work, and shows who says what.
//
// Usage: node consult.mjs MESH AGENT QUESTION, as in
// node consult.mjs http://127.0.0.1:7480 research "How long does a refund take?"
// It needs nothing but Node's own fetch.

const [mesh, agent, question] = process.argv.slice(2);
const extension = "urn:agentmesh:ext:mesh:v1";

async function call(path, body) {
  const answer = await fetch(mesh + path, {
    method: body ? "POST" : "GET",
    headers: { "Content-Type": "application/json", "A2A-Extensions": extension },
    body: body && JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  return answer;
}

// updates yields what the turn tells, as it comes.
async function* updates(thread) {
  const message = {
    messageId: crypto.randomUUID(), contextId: thread, role: "ROLE_USER",
    parts: [{ text: question }], metadata: { [extension]: { detail: true } },
  };
  const stream = await call(`/agents/${agent}/message:stream`, { message });
  let rest = "";
  for await (const chunk of stream.body.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop();
    for (const line of lines) if (line.startsWith("data: ")) yield JSON.parse(line.slice(6));
  }
}

const show = (words, text) => console.log(words, JSON.stringify(text));

const thread = crypto.randomUUID();
const subtasks = new Set(); // ids, as they were begun
let state = "TASK_STATE_UNSPECIFIED";
for await (const { error, artifactUpdate, statusUpdate } of updates(thread)) {
  if (error) throw new Error(error.message);
  if (artifactUpdate) show("answer:", artifactUpdate.artifact.parts.map((p) => p.text ?? "").join(""));
  if (statusUpdate) {
    state = statusUpdate.status.state;
    const of = statusUpdate.metadata?.[extension]?.execution;
    if (of && of.parent !== statusUpdate.taskId) { // below the agent that was asked
      subtasks.add(of.id);
      if (of.state === "output") show(`${of.agent} says:`, of.text);
    }
  }
}

for (const id of subtasks) {
  const x = (await (await call(`/mesh/v1/threads/${thread}/executions/${id}`)).json()).execution;
  show(`${x.execution.label} by ${x.execution.agent} is ${x.status} ${x.reason ?? "-"}:`, x.result ?? "");
}

console.log(state);
process.exitCode = state === "TASK_STATE_COMPLETED" ? 0 : 1;
