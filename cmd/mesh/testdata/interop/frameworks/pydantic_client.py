"""A client of fasta2a, which speaks JSON-RPC. See converse.py."""

import uuid

import httpx

from fasta2a.client import A2AClient
from fasta2a.schema import Message

from converse import arguments, converse, tell

url, token = arguments()
web = httpx.AsyncClient(timeout=60, headers={'Authorization': 'Bearer ' + token} if token else {})
at = {}


async def said(line):
    if 'client' not in at:
        card = (await web.get(url)).raise_for_status().json()
        at['client'] = A2AClient(next(i['url'] for i in card['supportedInterfaces'] if i['protocolBinding'] == 'JSONRPC'), http_client=web)
    parts = [{'text': line['say']}]
    if 'file' in line:
        parts.append({'raw': line['file'], 'media_type': 'image/png'})
    if 'data' in line:
        parts.append({'data': line['data']})
    message = Message(role='user', parts=parts, message_id=str(uuid.uuid4()))
    for key in ('context_id', 'task_id'):
        if key in at:
            message[key] = at[key]
    heard = {'text': '', 'files': 0, 'data': 0}
    async for answer in at['client'].stream_message(message):
        if 'error' in answer:
            heard['error'] = str(answer['error'])
            continue
        result = answer['result']
        task = result.get('task')
        if task:
            at['context_id'], at['running'] = task['context_id'], task['id']
        status = (task or result.get('status_update') or {}).get('status')
        artifacts = (task or {}).get('artifacts', [])
        if 'artifact_update' in result:
            artifacts = [result['artifact_update']['artifact']]
        for part in (p for a in artifacts for p in a['parts']):
            if part.get('text'):
                tell(piece=part['text'])
                heard['text'] += part['text']
            heard['files'] += 1 if 'raw' in part or 'url' in part else 0
            heard['data'] += 1 if 'data' in part else 0
        if status:
            heard['state'] = status['state']
            for part in status.get('message', {}).get('parts', []):
                heard['text'] += part.get('text', '')
    at.pop('task_id', None)
    if heard.get('state') == 'input-required':
        heard['asked'], at['task_id'] = True, at['running']
    return heard


converse(said)
