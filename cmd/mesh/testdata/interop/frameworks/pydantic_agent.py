"""An agent of pydantic-ai, as fasta2a serves it. See serve.py."""

from fasta2a.pydantic_ai import agent_to_a2a
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from serve import arguments, serve


class Chart(BaseModel):
    """Draws a chart."""

    bars: int


port, model, _ = arguments()
agent = Agent(OpenAIChatModel('scripted', provider=OpenAIProvider(base_url=model, api_key='none')),
              name='pydantic_agent', output_type=[str, Chart])
serve(agent_to_a2a(agent, url=f'http://127.0.0.1:{port}'))
