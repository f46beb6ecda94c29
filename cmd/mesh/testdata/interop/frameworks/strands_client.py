"""A client of strands: A2AAgent. See converse.py."""

import httpx

from a2a.client import ClientConfig
from strands.agent.a2a_agent import A2AAgent

from converse import arguments, converse, tell

url, token = arguments()
web = httpx.AsyncClient(timeout=60, headers={'Authorization': 'Bearer ' + token} if token else {})
agent = A2AAgent(url, client_config=ClientConfig(httpx_client=web))


async def said(line):
    content = [{'text': line['say']}]
    heard = {'text': ''}
    async for event in agent.stream_async(content):
        if event.get('type') == 'a2a_stream':
            tell(piece=str(event['event']))
        if 'result' in event:
            result = event['result']
            heard['text'] = ''.join(c.get('text', '') for c in result.message['content'])
            heard['asked'] = result.stop_reason == 'interrupt'
            heard['state'] = result.state.get('a2a_task_state', '')
    return heard


converse(said)
