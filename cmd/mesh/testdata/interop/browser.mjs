// A page in a browser, which follows a task with the browser's own EventSource.
//
// Usage: browser.mjs PACKAGES URL THREAD OTHER LINE...
//
// A page of the gateway's origin begins a task in THREAD with the first line
// and says the others when the task asks. Once, the connection breaks while the
// task waits; the browser reconnects by itself. Then a page of another origin
// tries to say something in the thread OTHER, and to listen. It prints one JSON
// object of what the pages saw. PACKAGES is the folder whose node_modules has
// playwright-core.
import { once } from 'node:events';
import http from 'node:http';
import { createRequire } from 'node:module';
import net from 'node:net';

const [packages, url, thread, other, ...lines] = process.argv.slice(2);
const { chromium } = createRequire(packages + '/')('playwright-core');

// serve returns the address of a server at a free port.
async function serve(server) {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return `http://127.0.0.1:${server.address().port}`;
}

// What the page says goes through here, so that the connection can break.
const open = new Set();
const wire = await serve(net.createServer((near) => {
  const far = net.connect(new URL(url).port, new URL(url).hostname);
  for (const [from, to] of [[near, far], [far, near]]) {
    open.add(from);
    from.on('error', () => {}).on('close', () => {
      open.delete(from);
      to.destroy();
    });
    from.pipe(to);
  }
}));
const cut = () => open.forEach((socket) => socket.destroy());

// follow runs in the page.
async function follow({ thread, lines }) {
  const say = async (text, taskId) => {
    const resp = await fetch('/message:send', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({
        message: { messageId: crypto.randomUUID(), role: 'ROLE_USER', contextId: thread, taskId, parts: [{ text }] },
        configuration: { returnImmediately: true },
      }),
    });
    if (!resp.ok) throw new Error(`${resp.status}: ${await resp.text()}`);
    return (await resp.json()).task.id;
  };
  const task = await say(lines.shift());
  const out = { task, opened: 0, cutAt: 0, events: [] };
  const source = new EventSource(`/tasks/${task}:subscribe`);
  await new Promise((resolve, reject) => {
    const hear = async ({ data, lastEventId }) => {
      const { task: whole, statusUpdate, artifactUpdate } = JSON.parse(data);
      const state = (whole ?? statusUpdate)?.status.state ?? '';
      const parts = [...(whole?.artifacts ?? []), ...(artifactUpdate ? [artifactUpdate.artifact] : [])].flatMap((a) => a.parts);
      out.events.push({ id: lastEventId, state, text: parts.map((p) => p.text ?? '').join('') });
      if (state === 'TASK_STATE_COMPLETED') resolve();
      if (state !== 'TASK_STATE_INPUT_REQUIRED') return;
      if (out.cutAt === 0) {
        out.cutAt = out.events.length;
        await window.cut();
      } else if (statusUpdate) {
        await say(lines.shift(), task);
      }
    };
    source.onmessage = (event) => hear(event).catch(reject);
    source.onopen = () => {
      out.opened++;
      if (out.opened === 2) say(lines.shift(), task).catch(reject);
    };
    source.onerror = () => {
      if (source.readyState === EventSource.CLOSED) reject(new Error('the EventSource gave up'));
    };
  });
  source.close();
  return out;
}

// intrude runs in a page of another origin.
async function intrude({ url, thread, task }) {
  const body = JSON.stringify({ message: { messageId: crypto.randomUUID(), role: 'ROLE_USER', contextId: thread, parts: [{ text: 'hello' }] } });
  // What a page may send anywhere, if it does not mind not to see the answer.
  await fetch(url + '/message:send', { method: 'POST', mode: 'no-cors', headers: { 'Content-Type': 'text/plain' }, body });
  const read = await fetch(`${url}/tasks/${task}`).then(() => 'read', (err) => err.name);
  const source = new EventSource(`${url}/tasks/${task}:subscribe`);
  const heard = await new Promise((resolve) => {
    source.onopen = () => resolve('opened');
    source.onerror = () => resolve(source.readyState === EventSource.CLOSED ? 'closed' : 'reconnecting');
  });
  source.close();
  return { read, heard };
}

const browser = await chromium.launch({
  executablePath: '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
});
try {
  const page = await browser.newPage();
  await page.exposeFunction('cut', cut);
  await page.goto(wire + '/healthz');
  const followed = await page.evaluate(follow, { thread, lines });

  const stranger = await browser.newPage();
  let said = 0;
  stranger.on('response', (resp) => {
    if (resp.url().endsWith('/message:send')) said = resp.status();
  });
  const elsewhere = await serve(http.createServer((_, resp) => {
    resp.setHeader('Content-Type', 'text/html');
    resp.end('<title>elsewhere</title>');
  }));
  await stranger.goto(elsewhere);
  const intruded = await stranger.evaluate(intrude, { url, thread: other, task: followed.task });
  console.log(JSON.stringify({ ...followed, intruder: { said, ...intruded } }));
} finally {
  await browser.close();
}
process.exit(0); // the servers would keep it
