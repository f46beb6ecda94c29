// The agent of the benchmarks within the JavaScript SDK's own server, over gRPC.
//
// Usage: server.mjs PACKAGES
//
// PACKAGES is the folder whose node_modules has the SDK. It prints where it
// listens and ends with its input.
import { once } from 'node:events';
import { createRequire } from 'node:module';

const load = createRequire(process.argv[2] + '/');
const grpc = load('@grpc/grpc-js');
const { TaskState } = load('@a2a-js/sdk');
const { AgentEvent, DefaultRequestHandler, InMemoryTaskStore } = load('@a2a-js/sdk/server');
const { UserBuilder } = load('@a2a-js/sdk/server/express');
const { A2AService, grpcService } = load('@a2a-js/sdk/server/grpc');

class Sayer {
  async execute({ userMessage, taskId, contextId, task }, bus) {
    const status = (state) => ({ state, message: undefined, timestamp: new Date().toISOString() });
    bus.publish(AgentEvent.task(task ?? {
      id: taskId, contextId, status: status(TaskState.TASK_STATE_SUBMITTED), artifacts: [], history: [userMessage], metadata: undefined,
    }));
    const chunks = Number(/chunks=(\d+)/.exec(userMessage.parts[0].content.value)[1]);
    for (let i = 0; i < chunks; i++) {
      const text = `${String(i).padStart(8, '0')} ${String(Date.now()).padStart(19, '0')} `.padEnd(32, '.');
      bus.publish(AgentEvent.artifactUpdate({
        taskId, contextId, append: i > 0, lastChunk: i === chunks - 1, metadata: undefined,
        artifact: { artifactId: 'out', name: '', description: '', metadata: undefined, extensions: [],
          parts: [{ content: { $case: 'text', value: text }, metadata: undefined, filename: '', mediaType: '' }] },
      }));
    }
    bus.publish(AgentEvent.statusUpdate({ taskId, contextId, status: status(TaskState.TASK_STATE_COMPLETED), metadata: undefined }));
    bus.finished();
  }

  async cancelTask() {}
}

const server = new grpc.Server();
const port = await new Promise((resolve, reject) =>
  server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (err, p) => (err ? reject(err) : resolve(p))));
const card = {
  name: 'Bench', description: 'Says what it is asked for', version: '1.0.0', provider: undefined, documentationUrl: undefined, iconUrl: undefined,
  supportedInterfaces: [{ url: `127.0.0.1:${port}`, protocolBinding: 'GRPC', protocolVersion: '1.0', tenant: '' }],
  capabilities: { streaming: true, pushNotifications: false, extendedAgentCard: false, extensions: [] },
  defaultInputModes: ['text/plain'], defaultOutputModes: ['text/plain'], securitySchemes: {}, securityRequirements: [], signatures: [],
  skills: [{ id: 'say', name: 'Say', description: 'Says it', tags: ['say'], examples: [], inputModes: [], outputModes: [], securityRequirements: [] }],
};
const requestHandler = new DefaultRequestHandler(card, new InMemoryTaskStore(), new Sayer());
server.addService(A2AService, grpcService({ requestHandler, userBuilder: UserBuilder.noAuthentication }));
console.log(`ready 127.0.0.1:${port}`);
process.stdin.resume();
await once(process.stdin, 'end');
process.exit(0);
