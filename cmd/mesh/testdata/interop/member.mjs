// A member of a mesh, on the JavaScript SDK's server of A2A and on what 'mesh
// protos' writes.
//
// Usage: member.mjs PACKAGES PROTOS MESH NAME TARGET
//
// It serves A2A over gRPC, registers as NAME with the mesh at the address MESH,
// and renews its lease; it says "registered", and "kept" when a renewal came
// through. "hand over" makes it hand the conversation over to TARGET, and "give
// back" give it back. It ends with its input. PACKAGES is the folder whose
// node_modules has the SDK, PROTOS the one with the protos.
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createRequire } from 'node:module';

const [packages, protos, address, name, target] = process.argv.slice(2);
const load = createRequire(packages + '/');
const grpc = load('@grpc/grpc-js');
const { TaskState } = load('@a2a-js/sdk');
const { AgentEvent, DefaultRequestHandler, InMemoryTaskStore } = load('@a2a-js/sdk/server');
const { A2AService, grpcService, UserBuilder } = load('@a2a-js/sdk/server/grpc');
const { mesh } = grpc.loadPackageDefinition(load('@grpc/proto-loader').loadSync(
  ['mesh/v1/registry.proto', 'mesh/v1/handoff.proto', 'mesh/v1/grant.proto'], { includeDirs: [protos], keepCase: false, longs: Number, enums: String }));

const extension = 'urn:agentmesh:ext:mesh:v1';
const insecure = grpc.credentials.createInsecure();
const registry = new mesh.v1.RegistryService(address, insecure);
const handoffs = new mesh.v1.HandoffService(address, insecure);
const grants = new mesh.v1.GrantService(address, insecure);
let mine = ''; // the secret of the registration

// call makes a unary call a promise.
const call = (client, method, request, metadata = new grpc.Metadata()) => new Promise((resolve, reject) =>
  client[method](request, metadata, { deadline: Date.now() + 10000 }, (err, answer) => (err ? reject(err) : resolve(answer))));

class Member {
  async execute({ userMessage, taskId, contextId, task, context }, bus) {
    const status = (state) => ({ state, message: undefined, timestamp: new Date().toISOString() });
    const move = (state) => bus.publish(AgentEvent.statusUpdate({ taskId, contextId, status: status(state), metadata: undefined }));
    bus.publish(AgentEvent.task(task ?? {
      id: taskId, contextId, status: status(TaskState.TASK_STATE_SUBMITTED), artifacts: [], history: [userMessage], metadata: undefined,
    }));
    move(TaskState.TASK_STATE_WORKING);
    const say = (text) => bus.publish(AgentEvent.artifactUpdate({
      taskId, contextId, append: false, lastChunk: true, metadata: undefined,
      artifact: {
        artifactId: randomUUID(), name: '', description: '', metadata: undefined, extensions: [],
        parts: [{ content: { $case: 'text', value: `${name} ${text}` }, metadata: undefined, filename: '', mediaType: '' }],
      },
    }));
    const called = context.state.get('headers');
    const threadId = called['thread-id'];
    // The ticket, with what proves that it is ours, for what we may do.
    const redeeming = new grpc.Metadata();
    redeeming.set('mesh-ticket', called['mesh-ticket']);
    redeeming.set('mesh-holder', mine);
    const redeemed = await call(grants, 'redeemTicket', {}, redeeming);
    const under = new grpc.Metadata();
    under.set('thread-id', threadId);
    under.set('mesh-grant', redeemed.grant);
    under.set('mesh-holder', mine);

    const text = userMessage.parts.map((p) => p.content.value).join('');
    const told = userMessage.metadata?.[extension]?.handoff;
    if (told) {
      say(`takes over: ${told.context_summary}.`);
    } else if (text === 'hand over') {
      say('hands over.');
      await call(handoffs, 'startHandoff', {
        threadId, targetAgent: target, reason: 'the user asked for it', contextSummary: `${name} was here`, updatesSent: 1,
      }, under);
    } else if (text === 'give back') {
      say('gives back.');
      await call(handoffs, 'endHandoff', { threadId, summary: 'all is said', updatesSent: 1 }, under);
    } else {
      say(`heard: ${text}`);
    }
    move(TaskState.TASK_STATE_COMPLETED);
    bus.finished();
  }

  async cancelTask() {}
}

const server = new grpc.Server();
const port = await new Promise((resolve, reject) =>
  server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (err, p) => (err ? reject(err) : resolve(p))));
const card = {
  name: name[0].toUpperCase() + name.slice(1), description: 'Hands conversations over.', version: '1.0.0',
  provider: undefined, documentationUrl: undefined, iconUrl: undefined,
  supportedInterfaces: [{ url: `127.0.0.1:${port}`, protocolBinding: 'GRPC', protocolVersion: '1.0', tenant: '' }],
  capabilities: {
    streaming: true, pushNotifications: false, extendedAgentCard: false,
    extensions: [{ uri: extension, description: '', required: false, params: { handoff_support: true } }],
  },
  defaultInputModes: ['text/plain'], defaultOutputModes: ['text/plain'], securitySchemes: {}, securityRequirements: [], signatures: [],
  skills: [{ id: 'talk', name: 'Talk', description: 'Talks.', tags: ['talk'], examples: [], inputModes: [], outputModes: [], securityRequirements: [] }],
};
server.addService(A2AService, grpcService({
  requestHandler: new DefaultRequestHandler(card, new InMemoryTaskStore(), new Member()), userBuilder: UserBuilder.noAuthentication,
}));

// proto-loader takes the fields of a Struct one by one.
const params = { fields: { handoff_support: { boolValue: true } } };
const sent = { ...card, capabilities: { ...card.capabilities, extensions: [{ uri: extension, params }] } };
const { leaseId, secret } = await call(registry, 'registerAgent', { name, card: sent, lease: { seconds: 5 } });
mine = secret;
console.log('registered');
const renewals = registry.keepAlive();
renewals.on('data', () => {
  console.log('kept');
  setTimeout(() => renewals.write({ name, leaseId }), 1000);
});
renewals.on('error', (err) => {
  console.error(err);
  process.exit(1);
});
renewals.write({ name, leaseId });

process.stdin.resume();
await once(process.stdin, 'end');
renewals.removeAllListeners('error').on('error', () => {}); // it is cancelled
renewals.cancel();
await call(registry, 'deregisterAgent', { name, leaseId });
console.log('gone');
process.exit(0);
