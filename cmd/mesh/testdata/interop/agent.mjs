// An agent on the JavaScript SDK's server of A2A, which knows nothing of any
// mesh.
//
// Usage: agent.mjs PACKAGES BINDING
//
// It says things in capitals, in two pieces; what begins with "ask" makes it
// ask back. It serves one binding (JSONRPC, HTTP+JSON or GRPC) and its card on
// free ports, prints where the card is, and ends with its input. PACKAGES is
// the folder whose node_modules has the SDK.
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createRequire } from 'node:module';

const [packages, binding] = process.argv.slice(2);
const load = createRequire(packages + '/');
const express = load('express');
const grpc = load('@grpc/grpc-js');
const { AGENT_CARD_PATH, Role, TaskState } = load('@a2a-js/sdk');
const { AgentEvent, DefaultRequestHandler, InMemoryTaskStore } = load('@a2a-js/sdk/server');
const { agentCardHandler, jsonRpcHandler, restHandler, UserBuilder } = load('@a2a-js/sdk/server/express');
const { A2AService, grpcService } = load('@a2a-js/sdk/server/grpc');

const part = (value) => ({ content: { $case: 'text', value }, metadata: undefined, filename: '', mediaType: '' });

class Shouter {
  async execute({ userMessage, taskId, contextId, task }, bus) {
    const now = () => new Date().toISOString();
    const status = (state, message) => ({ state, message, timestamp: now() });
    bus.publish(AgentEvent.task(task ?? {
      id: taskId, contextId, status: status(TaskState.TASK_STATE_SUBMITTED), artifacts: [], history: [userMessage], metadata: undefined,
    }));
    const move = (state, message) =>
      bus.publish(AgentEvent.statusUpdate({ taskId, contextId, status: status(state, message), metadata: undefined }));
    const text = userMessage.parts.map((p) => p.content.value).join('');
    move(TaskState.TASK_STATE_WORKING);
    if (text.startsWith('ask')) {
      move(TaskState.TASK_STATE_INPUT_REQUIRED, {
        messageId: randomUUID(), role: Role.ROLE_AGENT, taskId, contextId, parts: [part('How loud?')],
        metadata: undefined, extensions: [], referenceTaskIds: [],
      });
    } else {
      const say = (value, append) => bus.publish(AgentEvent.artifactUpdate({
        taskId, contextId, append, lastChunk: append, metadata: undefined,
        artifact: { artifactId: 'said ' + userMessage.messageId, name: '', description: '', parts: [part(value)], metadata: undefined, extensions: [] },
      }));
      say(text.toUpperCase(), false);
      say('!', true);
      move(TaskState.TASK_STATE_COMPLETED);
    }
    bus.finished();
  }

  async cancelTask() {}
}

const app = express();
const web = app.listen(0, '127.0.0.1');
await once(web, 'listening');
const base = `http://127.0.0.1:${web.address().port}`;
const speaks = new grpc.Server();
let url = base;
if (binding === 'GRPC') {
  const port = await new Promise((resolve, reject) =>
    speaks.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (err, p) => (err ? reject(err) : resolve(p))));
  url = `127.0.0.1:${port}`;
}
const card = {
  name: 'Shouter', description: 'Says it louder.', version: '1.0.0', provider: undefined, documentationUrl: undefined, iconUrl: undefined,
  supportedInterfaces: [{ url, protocolBinding: binding, protocolVersion: '1.0', tenant: '' }],
  capabilities: { streaming: true, pushNotifications: false, extendedAgentCard: false, extensions: [] },
  defaultInputModes: ['text/plain'], defaultOutputModes: ['text/plain'], securitySchemes: {}, securityRequirements: [], signatures: [],
  skills: [{ id: 'shout', name: 'Shout', description: 'Says it louder.', tags: ['loud'], examples: [], inputModes: [], outputModes: [], securityRequirements: [] }],
};
const requestHandler = new DefaultRequestHandler(card, new InMemoryTaskStore(), new Shouter());
const options = { requestHandler, userBuilder: UserBuilder.noAuthentication };
app.use('/' + AGENT_CARD_PATH, agentCardHandler({ agentCardProvider: requestHandler }));
if (binding === 'GRPC') speaks.addService(A2AService, grpcService(options));
else app.use('/', (binding === 'JSONRPC' ? jsonRpcHandler : restHandler)(options));
console.log(base);
process.stdin.resume();
await once(process.stdin, 'end');
process.exit(0);
