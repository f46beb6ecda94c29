"""A client on the Python SDK of A2A, which knows nothing of the mesh.

Usage: client.py URL BINDING VERSION LINE...

It finds the agent by its card, talks over the binding (JSONRPC, HTTP+JSON or
GRPC) in the version (1.0 or 0.3), says the lines one after the other in one
task, and prints one JSON object of what it saw.
"""

import asyncio
import json
import sys
import uuid

import grpc
import httpx

from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import (
    AgentCard,
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskState,
)


def state_name(state):
    return TaskState.Name(state)


class Heard:
    """What a stream told."""

    def __init__(self):
        self.task, self.context, self.states, self.text = '', '', [], ''

    def state(self, state):
        if not self.states or self.states[-1] != state_name(state):
            self.states.append(state_name(state))

    def add(self, event):
        if event.HasField('task'):
            self.task, self.context = event.task.id, event.task.context_id
            self.state(event.task.status.state)
            for artifact in event.task.artifacts:
                self.parts(artifact)
        elif event.HasField('status_update'):
            self.state(event.status_update.status.state)
        elif event.HasField('artifact_update'):
            self.parts(event.artifact_update.artifact)

    def parts(self, artifact):
        self.text += ''.join(p.text for p in artifact.parts)

    def json(self):
        return {'task': self.task, 'states': self.states, 'text': self.text}


def say(text, to=None):
    message = Message(message_id=str(uuid.uuid4()), role=Role.ROLE_USER, parts=[Part(text=text)])
    if to:
        message.task_id, message.context_id = to.task, to.context
    return SendMessageRequest(message=message)


async def hear(client, request):
    heard = Heard()
    async for event in client.send_message(request):
        heard.add(event)
    return heard


async def refusal(call):
    """Returns the name of the error that a call ends with."""
    try:
        await call
    except Exception as err:  # its type is the answer
        return type(err).__name__
    return 'none'


async def last_line(streaming, blocking, to, line):
    """Subscribes to a task that waits, answers it beside, and hears its end."""
    heard = Heard()
    answer = None
    async for event in streaming.subscribe(SubscribeToTaskRequest(id=to.task)):
        heard.add(event)
        if answer is None:
            answer = asyncio.create_task(hear(blocking, say(line, to)))
    return heard, await answer


async def main(url, binding, version, lines):
    async with httpx.AsyncClient(timeout=20) as web:
        card = await A2ACardResolver(web, url).get_agent_card()

        def client(streaming):
            mine = AgentCard()
            mine.CopyFrom(card)
            del mine.supported_interfaces[:]
            mine.supported_interfaces.extend(
                i for i in card.supported_interfaces
                if i.protocol_binding == binding and i.protocol_version == version)
            return ClientFactory(ClientConfig(
                streaming=streaming, httpx_client=web, supported_protocol_bindings=[binding],
                grpc_channel_factory=grpc.aio.insecure_channel)).create(mine)

        streaming, blocking = client(True), client(False)
        out = {'card': card.name, 'binding': type(streaming._transport).__name__}
        out['hello'] = (await hear(blocking, say('What are my overdue tasks?'))).json()

        talk = await hear(streaming, say(lines[0]))
        turns = [talk.json()]
        for line in lines[1:-1]:
            turns.append((await hear(streaming, say(line, talk))).json())
        heard, answer = await last_line(streaming, blocking, talk, lines[-1])
        out['turns'], out['subscribed'], out['answer'] = turns, heard.json(), answer.json()

        got = await streaming.get_task(GetTaskRequest(id=talk.task))
        out['got'] = {'state': state_name(got.status.state), 'history': len(got.history)}
        if version == '1.0':
            listed = await streaming.list_tasks(ListTasksRequest(context_id=talk.context))
            out['listed'] = [t.id for t in listed.tasks]

        waiting = await hear(streaming, say(lines[0]))
        canceled = await streaming.cancel_task(CancelTaskRequest(id=waiting.task))
        out['canceled'] = state_name(canceled.status.state)
        out['canceledAgain'] = await refusal(streaming.cancel_task(CancelTaskRequest(id=waiting.task)))
        out['missing'] = await refusal(streaming.get_task(GetTaskRequest(id='no-such-task')))
        print(json.dumps(out))
        await streaming.close()


asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]))
