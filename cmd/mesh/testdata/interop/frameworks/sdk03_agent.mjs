// An agent on the JavaScript SDK of A2A v0.3, which asks a model.
//
// Usage: sdk03_agent.mjs PACKAGES PORT MODEL [TOKEN]
//
// PACKAGES is the folder whose node_modules has the SDK; the rest is as in
// serve.py.
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createRequire } from 'node:module';

const [packages, port, model, token] = process.argv.slice(2);
const load = createRequire(packages + '/');
const express = load('express');
const { AGENT_CARD_PATH } = load('@a2a-js/sdk');
const { DefaultRequestHandler, InMemoryTaskStore } = load('@a2a-js/sdk/server');
const { agentCardHandler, jsonRpcHandler, UserBuilder } = load('@a2a-js/sdk/server/express');

const textPart = (text) => ({ kind: 'text', text });

function content(part) {
  if (part.kind === 'file') return { type: 'file' };
  return { type: 'text', text: part.kind === 'data' ? JSON.stringify(part.data) : part.text };
}

class Talker {
  said = new Map(); // by context
  running = new Map(); // by task

  async execute({ userMessage, taskId, contextId, task }, bus) {
    const ids = { taskId, contextId };
    const status = (state, text) => ({
      state, timestamp: new Date().toISOString(),
      message: text && { kind: 'message', messageId: randomUUID(), role: 'agent', ...ids, parts: [textPart(text)] },
    });
    const move = (state, text) =>
      bus.publish({ kind: 'status-update', ...ids, status: status(state, text), final: state !== 'working' });
    const add = (parts, artifactId = randomUUID(), append = false) =>
      bus.publish({ kind: 'artifact-update', ...ids, append, artifact: { artifactId, parts } });
    if (!task) bus.publish({ kind: 'task', id: taskId, contextId, status: status('submitted'), history: [userMessage] });
    move('working');
    const text = userMessage.parts.map((p) => p.text ?? '').join('');
    if (task) {
      add([textPart('answered: ' + text)]);
      move('completed');
    } else if (text.includes('ask me')) {
      move('input-required', 'How loud?');
    } else if (text.includes('draw a chart')) {
      add([
        { kind: 'data', data: { bars: 3 } },
        { kind: 'file', file: { bytes: 'iVBORw0KGgo=', mimeType: 'image/png', name: 'chart.png' } },
      ]);
      move('completed');
    } else {
      await this.talk(userMessage, ids, add, move);
    }
    bus.finished();
  }

  async talk({ parts }, { taskId, contextId }, add, move) {
    const said = this.said.get(contextId) ?? [];
    this.said.set(contextId, said);
    said.push({ role: 'user', content: parts.map(content) });
    const stop = new AbortController();
    this.running.set(taskId, { stop, contextId });
    try {
      const response = await fetch(model + '/chat/completions', {
        method: 'POST', signal: stop.signal, headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({ stream: true, messages: said }),
      });
      if (!response.ok) throw new Error(await response.text());
      let rest = '', append = false;
      for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
        const lines = (rest + piece).split('\n');
        rest = lines.pop();
        for (const line of lines.filter((l) => l.startsWith('data: {'))) {
          const text = JSON.parse(line.slice(6)).choices[0].delta.content;
          if (!text) continue;
          add([textPart(text)], 'answer', append);
          append = true;
        }
      }
    } finally {
      this.running.delete(taskId);
    }
    move('completed');
  }

  async cancelTask(taskId, bus) {
    const { stop, contextId } = this.running.get(taskId) ?? {};
    stop?.abort();
    bus.publish({ kind: 'status-update', taskId, contextId, final: true, status: { state: 'canceled', timestamp: new Date().toISOString() } });
  }
}

const card = {
  name: 'Talker', description: 'Talks.', version: '1.0.0', protocolVersion: '0.3.0', url: `http://127.0.0.1:${port}/`,
  preferredTransport: 'JSONRPC', capabilities: { streaming: true },
  defaultInputModes: ['text/plain'], defaultOutputModes: ['text/plain'],
  skills: [{ id: 'talk', name: 'Talk', description: 'Talks.', tags: ['talk'] }],
};
const requestHandler = new DefaultRequestHandler(card, new InMemoryTaskStore(), new Talker());
const app = express();
app.use('/' + AGENT_CARD_PATH, agentCardHandler({ agentCardProvider: requestHandler }));
app.use((req, res, next) => {
  if (!token || req.headers.authorization === 'Bearer ' + token) next();
  else res.status(401).set('WWW-Authenticate', 'Bearer').end();
});
app.use('/', jsonRpcHandler({ requestHandler, userBuilder: UserBuilder.noAuthentication }));
await once(app.listen(Number(port), '127.0.0.1'), 'listening');
console.log('ready');
process.stdin.resume();
await once(process.stdin, 'end');
process.exit(0);
