"""An agent of google-adk, as to_a2a serves it. See serve.py."""

import json

import httpx

from google.adk.a2a.converters.request_converter import convert_a2a_request_to_agent_run_request
from google.adk.a2a.executor.a2a_agent_executor import A2aAgentExecutor, A2aAgentExecutorConfig
from google.adk.a2a.executor.interceptors import include_artifacts_in_a2a_event_interceptor
from google.adk.a2a.utils.agent_to_a2a import to_a2a
from google.adk.agents import LlmAgent
from google.adk.agents.run_config import StreamingMode
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.tools import LongRunningFunctionTool, ToolContext
from google.genai import types

from serve import arguments, serve


class Model(BaseLlm):
    """A model behind chat completions."""

    url: str

    async def generate_content_async(self, llm_request, stream=False):
        body = {
            'model': self.model, 'stream': stream,
            'messages': [m for c in llm_request.contents for m in messages(c)],
            'tools': [{'type': 'function', 'function': {'name': name}} for name in llm_request.tools_dict],
        }
        whole, calls = '', []
        async with httpx.AsyncClient(timeout=None) as web:
            async with web.stream('POST', self.url + '/chat/completions', json=body) as resp:
                if resp.status_code != 200:
                    await resp.aread()
                    raise RuntimeError(f'the model answered {resp.status_code}: {resp.text}')
                async for delta in deltas(resp, stream):
                    if text := delta.get('content'):
                        whole += text
                        if stream:
                            yield LlmResponse(content=types.Content(role='model', parts=[types.Part(text=text)]), partial=True)
                    calls += delta.get('tool_calls') or []
        parts = [types.Part(text=whole)] if whole else []
        for call in calls:
            parts.append(types.Part(function_call=types.FunctionCall(
                id=call['id'], name=call['function']['name'], args=json.loads(call['function']['arguments']))))
        yield LlmResponse(content=types.Content(role='model', parts=parts), partial=False)


async def deltas(resp, stream):
    if not stream:
        yield json.loads(await resp.aread())['choices'][0]['message']
        return
    async for line in resp.aiter_lines():
        if line.startswith('data: {'):
            yield json.loads(line[6:])['choices'][0]['delta']


def messages(content):
    role = 'assistant' if content.role == 'model' else 'user'
    said = []
    for part in content.parts or []:
        if part.text:
            said.append({'type': 'text', 'text': part.text})
        elif part.inline_data and part.inline_data.mime_type.startswith('text/'):
            said.append({'type': 'text', 'text': part.inline_data.data.decode()})
        elif part.inline_data:
            said.append({'type': 'file', 'file': {'filename': part.inline_data.display_name, 'mime': part.inline_data.mime_type}})
        elif part.function_call:
            yield {'role': 'assistant', 'tool_calls': [{'id': part.function_call.id, 'type': 'function', 'function': {
                'name': part.function_call.name, 'arguments': json.dumps(part.function_call.args)}}]}
        elif part.function_response:
            yield {'role': 'tool', 'tool_call_id': part.function_response.id, 'content': json.dumps(part.function_response.response)}
    if said:
        yield {'role': role, 'content': said}


def ask_user(question: str) -> None:
    """Asks the user."""


async def chart(tool_context: ToolContext) -> dict:
    """Draws a chart, which is kept as an artifact."""
    await tool_context.save_artifact('chart.png', types.Part.from_bytes(data=b'\x89PNG chart', mime_type='image/png'))
    return {'bars': 3}


def streamed(request, part_converter):
    """Has the runner stream, which to_a2a by itself does not."""
    run = convert_a2a_request_to_agent_run_request(request, part_converter)
    run.run_config.streaming_mode = StreamingMode.SSE
    return run


port, model, _ = arguments()
agent = LlmAgent(
    name='adk_agent', description='Talks.', model=Model(model='scripted', url=model),
    tools=[LongRunningFunctionTool(ask_user), chart])
serve(to_a2a(agent, host='127.0.0.1', port=port, agent_executor_factory=lambda runner: A2aAgentExecutor(
    runner=runner, config=A2aAgentExecutorConfig(
        request_converter=streamed, execute_interceptors=[include_artifacts_in_a2a_event_interceptor]), force_new_version=True)))
