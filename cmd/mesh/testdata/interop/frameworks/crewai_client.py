"""A client of CrewAI: how its agents delegate to an agent of A2A. See converse.py."""

import base64

from crewai.a2a.auth.client_schemes import BearerTokenAuth
from crewai.a2a.updates import StreamingConfig
from crewai.a2a.utils.delegation import aexecute_a2a_delegation

from converse import arguments, converse

url, token = arguments()
at = {'history': []}


async def said(line):
    result = await aexecute_a2a_delegation(
        url, BearerTokenAuth(token=token) if token else None, 60, line['say'], conversation_history=at['history'],
        context_id=at.get('context'), task_id=at.get('task'), updates=StreamingConfig())
    at['history'] = result['history']
    for message in result['history']:
        at['context'] = message.context_id or at.get('context')
    state = result['status'].value
    at['task'] = next((m.task_id for m in reversed(result['history']) if m.task_id), None) if state == 'input-required' else None
    heard = {'text': result.get('result', ''), 'state': state, 'asked': state == 'input-required', 'files': 0}
    if state == 'input-required':
        heard['text'] += result.get('error', '')
    elif result.get('error'):
        heard['error'] = result['error']
    return heard


converse(said)
