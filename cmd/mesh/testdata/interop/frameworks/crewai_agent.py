"""An agent of CrewAI, as its A2A server methods make it, on the server of its A2A
SDK. See serve.py."""

from a2a.server.agent_execution import AgentExecutor
from a2a.server.apps import A2AStarletteApplication
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore
from crewai import LLM, Agent
from crewai.a2a import A2AServerConfig
from crewai.a2a.utils.task import cancel, execute

from serve import arguments, serve

port, model, _ = arguments()
agent = Agent(
    role='Talker', goal='Talk', backstory='Talks.', max_iter=2, max_retry_limit=0, verbose=False, a2a=A2AServerConfig(),
    llm=LLM(model='openai/scripted', base_url=model, api_key='none', max_retries=0))


class Executor(AgentExecutor):
    async def execute(self, context, event_queue):
        await execute(agent, context, event_queue)

    async def cancel(self, context, event_queue):
        await cancel(context, event_queue)


card = agent.to_agent_card(f'http://127.0.0.1:{port}/')
serve(A2AStarletteApplication(agent_card=card, http_handler=DefaultRequestHandler(
    agent_executor=Executor(), task_store=InMemoryTaskStore())).build())
