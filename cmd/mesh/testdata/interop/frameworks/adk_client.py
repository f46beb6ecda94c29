"""A client of google-adk: RemoteA2aAgent in a runner. See converse.py."""

import base64

import httpx

from google.adk.agents.remote_a2a_agent import RemoteA2aAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.runners import InMemoryRunner
from google.genai import types

from converse import arguments, converse, tell

url, token = arguments()
web = httpx.AsyncClient(timeout=60, headers={'Authorization': 'Bearer ' + token} if token else {})
runner = InMemoryRunner(agent=RemoteA2aAgent('remote', url, httpx_client=web), app_name='client')
sessions = []


async def said(line):
    if not sessions:
        sessions.append(await runner.session_service.create_session(app_name='client', user_id='user'))
    parts = [types.Part(text=line['say'])]
    if 'file' in line:
        parts.append(types.Part.from_bytes(data=base64.b64decode(line['file']), mime_type='image/png'))
    heard = {'text': '', 'files': 0}
    async for event in runner.run_async(
            user_id='user', session_id=sessions[0].id, new_message=types.Content(role='user', parts=parts),
            run_config=RunConfig(streaming_mode=StreamingMode.SSE)):
        if event.error_message:
            heard['error'] = event.error_message
        if event.long_running_tool_ids:  # a call that stands for the question
            heard['asked'] = True
            heard['text'] += ''.join(str(call.args) for call in event.get_function_calls())
        response = (event.custom_metadata or {}).get('a2a:response')
        if isinstance(response, dict):
            heard['state'] = response.get('status', {}).get('state', '')
        for part in event.content.parts if event.content and event.content.parts else []:
            if part.text and not part.thought:
                tell(piece=part.text)
                heard['text'] += part.text
            heard['files'] += 1 if part.inline_data else 0
    return heard


converse(said)
