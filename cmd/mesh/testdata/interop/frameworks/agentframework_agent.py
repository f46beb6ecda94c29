"""An agent of Microsoft's agent-framework, on its A2AExecutor. See serve.py."""

from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentInterface
from agent_framework import Agent, FileHistoryProvider
from agent_framework.openai import OpenAIChatCompletionClient
from agent_framework_a2a import A2AExecutor
from starlette.applications import Starlette

from serve import arguments, serve

port, model, _ = arguments()
agent = Agent(OpenAIChatCompletionClient(model='scripted', api_key='none', base_url=model), name='agentframework', description='Talks.',
              context_providers=[FileHistoryProvider('history')])  # the executor makes a session anew for each message
card = AgentCard(
    name='Agent Framework', description='Talks.', version='1.0.0', capabilities=AgentCapabilities(streaming=True),
    supported_interfaces=[AgentInterface(url=f'http://127.0.0.1:{port}/', protocol_binding='JSONRPC', protocol_version='1.0')],
    default_input_modes=['text/plain'], default_output_modes=['text/plain'])
handler = DefaultRequestHandler(agent_executor=A2AExecutor(agent, stream=True), task_store=InMemoryTaskStore(), agent_card=card)
serve(Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, '/')]))
