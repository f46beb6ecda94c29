"""A client of Microsoft's agent-framework: A2AAgent. See converse.py."""

import httpx

from a2a.client import A2ACardResolver
from a2a.types import TaskState
from agent_framework import Content, Message
from agent_framework_a2a import A2AAgent

from converse import arguments, converse, tell

url, token = arguments()
web = httpx.AsyncClient(timeout=60, headers={'Authorization': 'Bearer ' + token} if token else {})
at = {}


async def said(line):
    if not at:
        at['agent'] = A2AAgent(agent_card=await A2ACardResolver(web, url).get_agent_card(), http_client=web)
        at['session'] = at['agent'].create_session()
    contents = [Content.from_text(line['say'])]
    if 'file' in line:
        contents.append(Content.from_uri('data:image/png;base64,' + line['file'], media_type='image/png'))
    heard = {'text': '', 'files': 0}
    async for update in at['agent'].run(Message('user', contents), session=at['session'], stream=True):
        if update.text:
            tell(piece=update.text)
            heard['text'] += update.text
        heard['files'] += sum(1 for c in update.contents if c.type in ('data', 'uri'))
        heard['asked'] = heard.get('asked', False) or bool(update.user_input_requests)
    heard['state'] = TaskState.Name(at['session'].service_session_id['task_state'])
    return heard


converse(said)
