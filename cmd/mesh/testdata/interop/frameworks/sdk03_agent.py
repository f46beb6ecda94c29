"""An agent on the Python SDK of A2A v0.3, which asks a model. See serve.py."""

import asyncio
import json

import httpx

from a2a.server.agent_execution import AgentExecutor
from a2a.server.apps import A2AStarletteApplication
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentSkill, DataPart, FilePart, FileWithBytes, Part, TextPart
from a2a.utils import new_task

from serve import arguments, serve

port, model, _ = arguments()


class Talker(AgentExecutor):
    def __init__(self):
        self.said, self.running = {}, {}

    async def execute(self, context, event_queue):
        task = context.current_task
        if task is None:
            task = new_task(context.message)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        self.running[task.id] = asyncio.current_task()
        await updater.start_work()
        text = context.get_user_input()
        if context.current_task is not None:
            await updater.add_artifact([Part(root=TextPart(text='answered: ' + text))])
            await updater.complete()
        elif 'ask me' in text:
            await updater.requires_input(updater.new_agent_message([Part(root=TextPart(text='How loud?'))]))
        elif 'draw a chart' in text:
            await updater.add_artifact([
                Part(root=DataPart(data={'bars': 3})),
                Part(root=FilePart(file=FileWithBytes(bytes='iVBORw0KGgo=', mime_type='image/png', name='chart.png')))])
            await updater.complete()
        else:
            await self.talk(updater, context.message)

    async def talk(self, updater, message):
        said = self.said.setdefault(updater.context_id, [])
        said.append({'role': 'user', 'content': [content(p.root) for p in message.parts]})
        first = True
        async with httpx.AsyncClient(timeout=None) as web:
            async with web.stream('POST', model + '/chat/completions', json={'stream': True, 'messages': said}) as resp:
                if resp.status_code != 200:
                    await updater.failed(updater.new_agent_message([Part(root=TextPart(text='the model is not well'))]))
                    return
                async for line in resp.aiter_lines():
                    text = line.startswith('data: {') and json.loads(line[6:])['choices'][0]['delta'].get('content')
                    if text:
                        await updater.add_artifact([Part(root=TextPart(text=text))], artifact_id='answer', append=not first)
                        first = False
        await updater.complete()

    async def cancel(self, context, event_queue):
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def content(part):
    if isinstance(part, TextPart):
        return {'type': 'text', 'text': part.text}
    if isinstance(part, DataPart):
        return {'type': 'text', 'text': json.dumps(part.data)}
    return {'type': 'file'}


card = AgentCard(
    name='Talker', description='Talks.', version='1.0.0', url=f'http://127.0.0.1:{port}/', capabilities=AgentCapabilities(streaming=True),
    default_input_modes=['text/plain'], default_output_modes=['text/plain'],
    skills=[AgentSkill(id='talk', name='Talk', description='Talks.', tags=['talk'])])
serve(A2AStarletteApplication(agent_card=card, http_handler=DefaultRequestHandler(
    agent_executor=Talker(), task_store=InMemoryTaskStore())).build())
