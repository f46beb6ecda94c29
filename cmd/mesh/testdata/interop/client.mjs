// A client on the JavaScript SDK of A2A, which knows nothing of the mesh.
//
// Usage: client.mjs PACKAGES URL BINDING VERSION LINE...
//
// It finds the agent by its card, talks over the binding (JSONRPC, HTTP+JSON or
// GRPC) in the version (1.0 or 0.3), says the lines one after the other in one
// task, and prints one JSON object of what it saw. PACKAGES is the folder whose
// node_modules has the SDK.
import { randomUUID } from 'node:crypto';
import { createRequire } from 'node:module';

const [packages, url, binding, version, ...lines] = process.argv.slice(2);
const load = createRequire(packages + '/');
const { Role, taskStateToJSON } = load('@a2a-js/sdk');
const { AgentCardResolver, ClientFactory, JsonRpcTransportFactory, RestTransportFactory } = load('@a2a-js/sdk/client');
const { GrpcTransportFactory } = load('@a2a-js/sdk/client/grpc');

// Heard is what a stream told.
class Heard {
  task = '';
  context = '';
  states = [];
  text = '';

  add({ payload }) {
    const { $case, value } = payload;
    if ($case === 'task') {
      this.task = value.id;
      this.context = value.contextId;
      this.state(value.status.state);
      value.artifacts.forEach((a) => this.parts(a));
    } else if ($case === 'statusUpdate') {
      this.state(value.status.state);
    } else if ($case === 'artifactUpdate') {
      this.parts(value.artifact);
    }
  }

  state(state) {
    const name = taskStateToJSON(state);
    if (this.states.at(-1) !== name) this.states.push(name);
  }

  parts(artifact) {
    for (const p of artifact.parts) if (p.content?.$case === 'text') this.text += p.content.value;
  }

  json() {
    return { task: this.task, states: this.states, text: this.text };
  }
}

const say = (text, to) => ({
  tenant: '',
  configuration: undefined,
  metadata: undefined,
  message: {
    messageId: randomUUID(), role: Role.ROLE_USER, contextId: to?.context ?? '', taskId: to?.task ?? '',
    parts: [{ content: { $case: 'text', value: text }, metadata: undefined, filename: '', mediaType: '' }],
    metadata: undefined, extensions: [], referenceTaskIds: [],
  },
});

async function hear(stream, each) {
  const heard = new Heard();
  for await (const event of stream) {
    heard.add(event);
    each?.();
  }
  return heard;
}

async function wait(client, request) {
  const heard = new Heard();
  heard.add({ payload: { $case: 'task', value: await client.sendMessage(request) } });
  return heard;
}

// refusal returns the name of the error that a call ends with.
const refusal = (call) => call.then(() => 'none', (err) => err.name);

const legacyCompat = { enabled: version === '0.3' };
const card = await AgentCardResolver.default.resolve(url);
const client = await new ClientFactory({
  transports: [
    new JsonRpcTransportFactory({ legacyCompat }), new RestTransportFactory({ legacyCompat }),
    new GrpcTransportFactory({ legacyCompat }),
  ],
}).createFromAgentCard({
  ...card,
  supportedInterfaces: card.supportedInterfaces.filter((i) => i.protocolBinding === binding && i.protocolVersion === version),
});
const out = { card: card.name, binding: client.transport.constructor.name };
out.hello = (await wait(client, say('What are my overdue tasks?'))).json();

const talk = await hear(client.sendMessageStream(say(lines[0])));
out.turns = [talk.json()];
for (const line of lines.slice(1, -1)) out.turns.push((await hear(client.sendMessageStream(say(line, talk)))).json());

// It subscribes to the task that waits, answers it beside, and hears its end.
let answer;
const heard = await hear(client.resubscribeTask({ tenant: '', id: talk.task }), () => {
  answer ??= wait(client, say(lines.at(-1), talk));
});
out.subscribed = heard.json();
out.answer = (await answer).json();

const got = await client.getTask({ tenant: '', id: talk.task });
out.got = { state: taskStateToJSON(got.status.state), history: got.history.length };
if (version === '1.0') {
  const listed = await client.listTasks({
    tenant: '', contextId: talk.context, status: 0, pageToken: '', statusTimestampAfter: undefined,
  });
  out.listed = listed.tasks.map((t) => t.id);
}

const waiting = await hear(client.sendMessageStream(say(lines[0])));
const cancel = () => client.cancelTask({ tenant: '', id: waiting.task, metadata: undefined });
out.canceled = taskStateToJSON((await cancel()).status.state);
out.canceledAgain = await refusal(cancel());
out.missing = await refusal(client.getTask({ tenant: '', id: 'no-such-task' }));
console.log(JSON.stringify(out));
process.exit(0); // connections of gRPC would keep it
