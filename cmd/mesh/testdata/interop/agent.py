"""An agent on the Python SDK's server of A2A, which knows nothing of any mesh.

Usage: agent.py BINDING

It says things in capitals, in two pieces; what begins with "ask" makes it ask
back. It serves one binding (JSONRPC, HTTP+JSON or GRPC) and its card on free
ports, prints where the card is, and ends with its input.
"""

import asyncio
import contextlib
import socket
import sys

import grpc
import uvicorn

from starlette.applications import Starlette

from a2a.helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Part, a2a_pb2_grpc


class Shouter(AgentExecutor):
    async def execute(self, context, event_queue):
        if context.current_task is None:
            await event_queue.enqueue_event(new_task_from_user_message(context.message))
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updater.start_work()
        text = context.get_user_input()
        if text.startswith('ask'):
            await updater.requires_input(updater.new_agent_message([Part(text='How loud?')]))
            return
        await updater.add_artifact([Part(text=text.upper())], artifact_id='said ' + context.message.message_id)
        await updater.add_artifact([Part(text='!')], artifact_id='said ' + context.message.message_id, append=True, last_chunk=True)
        await updater.complete()

    async def cancel(self, context, event_queue):
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def make_card(binding, url):
    return AgentCard(
        name='Shouter', description='Says it louder.', version='1.0.0',
        supported_interfaces=[AgentInterface(url=url, protocol_binding=binding, protocol_version='1.0')],
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=['text/plain'], default_output_modes=['text/plain'],
        skills=[AgentSkill(id='shout', name='Shout', description='Says it louder.', tags=['loud'])])


async def main(binding):
    web = socket.create_server(('127.0.0.1', 0))
    base = f'http://127.0.0.1:{web.getsockname()[1]}'
    speaks = grpc.aio.server()
    card = make_card(binding, f'127.0.0.1:{speaks.add_insecure_port("127.0.0.1:0")}' if binding == 'GRPC' else base)
    handler = DefaultRequestHandler(agent_executor=Shouter(), task_store=InMemoryTaskStore(), agent_card=card)
    routes = create_agent_card_routes(card)
    if binding == 'GRPC':
        a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(handler), speaks)
    elif binding == 'JSONRPC':
        routes += create_jsonrpc_routes(handler, '/')
    else:
        routes += create_rest_routes(handler)
    await speaks.start()
    server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_level='error'))
    serving = asyncio.create_task(server.serve(sockets=[web]))
    print(base, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await speaks.stop(None)
    server.should_exit = server.force_exit = True
    with contextlib.suppress(asyncio.CancelledError):
        await serving


asyncio.run(main(sys.argv[1]))
