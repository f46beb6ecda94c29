"""A member of a mesh, on the Python SDK's server of A2A and on stubs made from
what 'mesh protos' writes. It tells of what it does by OpenTelemetry, if there is
a collector at OTEL_EXPORTER_OTLP_ENDPOINT, in the trace in which it is called.

Usage: member.py MESH NAME TARGET

It serves A2A over gRPC, registers as NAME with the mesh at the address MESH,
and renews its lease; it says "registered", and "kept" when a renewal came
through. "hand over" makes it hand the conversation over to TARGET, and "give
back" give it back. It ends with its input.
"""

import asyncio
import contextlib
import os
import sys

import grpc

from google.protobuf.duration_pb2 import Duration
from google.protobuf.json_format import MessageToDict

from a2a.helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentExtension, AgentInterface, AgentSkill, Part, a2a_pb2_grpc
from mesh.a2a.v1 import a2a_pb2 as mesh_a2a
from mesh.v1 import grant_pb2, grant_pb2_grpc, handoff_pb2, handoff_pb2_grpc, registry_pb2, registry_pb2_grpc

EXTENSION = 'urn:agentmesh:ext:mesh:v1'


def told(name, metadata):
    """A span of that name below the caller's."""
    if 'OTEL_EXPORTER_OTLP_ENDPOINT' not in os.environ:
        return contextlib.nullcontext()
    from opentelemetry import trace
    from opentelemetry.propagate import extract
    return trace.get_tracer('member').start_as_current_span(name, context=extract(metadata))


def tell():
    """Has spans told of."""
    if 'OTEL_EXPORTER_OTLP_ENDPOINT' in os.environ:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
        trace.set_tracer_provider(provider)


class Member(AgentExecutor):
    def __init__(self, channel, name, target):
        self.handoffs = handoff_pb2_grpc.HandoffServiceStub(channel)
        self.grants = grant_pb2_grpc.GrantServiceStub(channel)
        self.secret = None  # of the registration
        self.name, self.target = name, target

    async def execute(self, context, event_queue):
        called = dict(context.call_context.state['grpc_context'].invocation_metadata())
        with told(f'{self.name} in Python', called):
            await self.work(context, event_queue, called)

    async def work(self, context, event_queue, called):
        if context.current_task is None:
            await event_queue.enqueue_event(new_task_from_user_message(context.message))
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updater.start_work()
        thread = called['thread-id']
        # The ticket, with what proves that it is ours, for what we may do.
        redeemed = await self.grants.RedeemTicket(grant_pb2.RedeemTicketRequest(), timeout=10, metadata=[
            ('mesh-ticket', called['mesh-ticket']), ('mesh-holder', self.secret)])
        under = [('thread-id', thread), ('mesh-grant', redeemed.grant), ('mesh-holder', self.secret)]

        async def say(text):
            await updater.add_artifact([Part(text=f'{self.name} {text}')])

        text = context.get_user_input()
        told = MessageToDict(context.message.metadata).get(EXTENSION, {})
        if 'handoff' in told:
            await say(f'takes over: {told["handoff"]["context_summary"]}.')
        elif text == 'hand over':
            await say('hands over.')
            await self.handoffs.StartHandoff(handoff_pb2.StartHandoffRequest(
                thread_id=thread, target_agent=self.target, reason='the user asked for it',
                context_summary=f'{self.name} was here', updates_sent=1), metadata=under, timeout=10)
        elif text == 'give back':
            await say('gives back.')
            await self.handoffs.EndHandoff(handoff_pb2.EndHandoffRequest(
                thread_id=thread, summary='all is said', updates_sent=1), metadata=under, timeout=10)
        else:
            await say(f'heard: {text}')
        await updater.complete()

    async def cancel(self, context, event_queue):
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


async def keep(registry, name, lease_id):
    """Renews the lease, a second after each renewal."""
    stream = registry.KeepAlive()
    while True:
        await stream.write(registry_pb2.KeepAliveRequest(name=name, lease_id=lease_id))
        renewed = await stream.read()
        if not renewed.HasField('expires'):
            raise RuntimeError('the lease was not renewed')
        print('kept', flush=True)
        await asyncio.sleep(1)


async def main(address, name, target):
    speaks = grpc.aio.server()
    endpoint = f'127.0.0.1:{speaks.add_insecure_port("127.0.0.1:0")}'
    card = AgentCard(
        name=name.capitalize(), description='Hands conversations over.', version='1.0.0',
        supported_interfaces=[AgentInterface(url=endpoint, protocol_binding='GRPC', protocol_version='1.0')],
        capabilities=AgentCapabilities(streaming=True, extensions=[AgentExtension(uri=EXTENSION, params={'handoff_support': True})]),
        default_input_modes=['text/plain'], default_output_modes=['text/plain'],
        skills=[AgentSkill(id='talk', name='Talk', description='Talks.', tags=['talk'])])
    async with grpc.aio.insecure_channel(address) as channel:
        member = Member(channel, name, target)
        handler = DefaultRequestHandler(
            agent_executor=member, task_store=InMemoryTaskStore(), agent_card=card)
        a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(handler), speaks)
        await speaks.start()
        registry = registry_pb2_grpc.RegistryServiceStub(channel)
        # The same bytes, in the messages that the stubs were made with.
        mine = mesh_a2a.AgentCard.FromString(card.SerializeToString())
        registered = await registry.RegisterAgent(
            registry_pb2.RegisterAgentRequest(name=name, card=mine, lease=Duration(seconds=5)), timeout=10)
        member.secret = registered.secret
        print('registered', flush=True)
        renewing = asyncio.create_task(keep(registry, name, registered.lease_id))
        ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
        await asyncio.wait([renewing, ended], return_when=asyncio.FIRST_COMPLETED)
        renewing.cancel()
        await registry.DeregisterAgent(registry_pb2.DeregisterAgentRequest(name=name, lease_id=registered.lease_id), timeout=10)
        print('gone', flush=True)
    await speaks.stop(None)


tell()
asyncio.run(main(*sys.argv[1:]))
