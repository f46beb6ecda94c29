"""A client on the Python SDK of A2A v0.3. See converse.py."""

import uuid

import httpx

from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import (
    DataPart, FilePart, FileWithBytes, Message, Part, Role, TaskArtifactUpdateEvent, TaskIdParams, TextPart,
)

from converse import arguments, converse, tell

url, token = arguments()
web = httpx.AsyncClient(timeout=60, headers={'Authorization': 'Bearer ' + token} if token else {})
at = {}


async def said(line):
    if 'client' not in at:
        card = await A2ACardResolver(web, url).get_agent_card()
        at['client'] = ClientFactory(ClientConfig(httpx_client=web, streaming=True)).create(card)
    parts = [Part(root=TextPart(text=line['say']))]
    if 'file' in line:
        parts.append(Part(root=FilePart(file=FileWithBytes(bytes=line['file'], mime_type='image/png', name='tiny.png'))))
    if 'data' in line:
        parts.append(Part(root=DataPart(data=line['data'])))
    heard = {'text': '', 'files': 0, 'data': 0}
    async for event in at['client'].send_message(Message(
            role=Role.user, parts=parts, message_id=str(uuid.uuid4()), context_id=at.get('context'), task_id=at.pop('task', None))):
        task, update = event
        at['context'], heard['state'] = task.context_id, task.status.state.value
        if isinstance(update, TaskArtifactUpdateEvent):
            for part in update.artifact.parts:
                if isinstance(part.root, TextPart):
                    tell(piece=part.root.text)
                    heard['text'] += part.root.text
                heard['files'] += 1 if isinstance(part.root, FilePart) else 0
                heard['data'] += 1 if isinstance(part.root, DataPart) else 0
        if 'cancel' in line and line['cancel'] in heard['text']:
            await at['client'].cancel_task(TaskIdParams(id=task.id))
            line.pop('cancel')
    if task.status.message:
        heard['text'] += ''.join(p.root.text for p in task.status.message.parts if isinstance(p.root, TextPart))
    if heard['state'] == 'input-required':
        heard['asked'], at['task'] = True, task.id
    return heard


converse(said)
