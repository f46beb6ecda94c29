// A client on the JavaScript SDK of A2A v0.3.
//
// Usage: sdk03_client.mjs PACKAGES URL [TOKEN]
//
// PACKAGES is the folder whose node_modules has the SDK; what it reads and
// tells is as in converse.py.
import { randomUUID } from 'node:crypto';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const [packages, url, token] = process.argv.slice(2);
const load = createRequire(packages + '/');
const { ClientFactory, DefaultAgentCardResolver, JsonRpcTransportFactory } = load('@a2a-js/sdk/client');

const fetchImpl = (to, init = {}) => {
  const headers = new Headers(init.headers);
  if (token) headers.set('Authorization', 'Bearer ' + token);
  return fetch(to, { ...init, headers });
};
const factory = new ClientFactory({
  transports: [new JsonRpcTransportFactory({ fetchImpl })], cardResolver: new DefaultAgentCardResolver({ fetchImpl }),
});
const tell = (what) => console.log(JSON.stringify(what));

let client, contextId, taskId;

async function said(line) {
  client ??= await factory.createFromUrl(url, url.endsWith('.json') ? '' : undefined);
  const parts = [{ kind: 'text', text: line.say }];
  if (line.file) parts.push({ kind: 'file', file: { bytes: line.file, mimeType: 'image/png', name: 'tiny.png' } });
  if (line.data) parts.push({ kind: 'data', data: line.data });
  const heard = { text: '', files: 0, data: 0 };
  const message = { kind: 'message', messageId: randomUUID(), role: 'user', parts, contextId, taskId };
  taskId = undefined;
  let task, status;
  for await (const event of client.sendMessageStream({ message })) {
    task = event.kind === 'task' ? event.id : event.taskId;
    contextId = event.contextId ?? contextId;
    status = event.status ?? status;
    const artifacts = event.kind === 'task' ? event.artifacts ?? [] : [event.artifact ?? { parts: [] }];
    for (const part of artifacts.flatMap((a) => a.parts)) {
      if (part.kind === 'text') {
        tell({ piece: part.text });
        heard.text += part.text;
      }
      if (part.kind === 'file') heard.files++;
      if (part.kind === 'data') heard.data++;
    }
    if (line.cancel && heard.text.includes(line.cancel)) {
      delete line.cancel;
      await client.cancelTask({ id: task });
    }
  }
  heard.state = status?.state;
  for (const part of status?.message?.parts ?? []) heard.text += part.text ?? '';
  if (heard.state === 'input-required') {
    heard.asked = true;
    taskId = task;
  }
  return heard;
}

for await (const line of createInterface({ input: process.stdin })) {
  tell({ heard: await said(JSON.parse(line)).catch((err) => ({ error: `${err.name}: ${err.message}` })) });
}
process.exit(0);
