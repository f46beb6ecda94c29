"""An agent of strands, as its A2AServer serves it. See serve.py."""

from strands import Agent, tool
from strands.models.openai import OpenAIModel
from strands.multiagent.a2a import A2AServer
from strands.types.tools import ToolContext

from serve import arguments, serve

port, model, _ = arguments()


@tool(context=True)
def ask_user(question: str, tool_context: ToolContext) -> str:
    """Asks the user."""
    return tool_context.interrupt('question', reason=question)


def agent(_):
    return Agent(
        name='strands agent', description='Talks.', tools=[ask_user], callback_handler=None,
        model=OpenAIModel(client_args={'base_url': model, 'api_key': 'none', 'max_retries': 0}, model_id='scripted'))


serve(A2AServer(agent_factory=agent, host='127.0.0.1', port=port, enable_a2a_compliant_streaming=True).to_starlette_app())
