"""A client on the Python SDK of A2A that has a credential for a mesh.

Usage: login.py URL TOKEN

It finds the agent by its card, gives the SDK the token as the credential of the
scheme bearer, says hello over JSON-RPC, and prints what is answered.
"""

import asyncio
import sys
import uuid

import httpx

from a2a.client import A2ACardResolver, ClientCallContext, ClientConfig, ClientFactory
from a2a.client.auth import AuthInterceptor, InMemoryContextCredentialStore
from a2a.types import Message, Part, Role, SendMessageRequest


async def main(url, token):
    store = InMemoryContextCredentialStore()
    await store.set_credentials('me', 'bearer', token)
    async with httpx.AsyncClient(timeout=30) as web:
        card = await A2ACardResolver(web, url).get_agent_card()
        config = ClientConfig(httpx_client=web, supported_protocol_bindings=['JSONRPC'])
        client = ClientFactory(config).create(card, interceptors=[AuthInterceptor(store)])
        message = Message(message_id=str(uuid.uuid4()), role=Role.ROLE_USER, parts=[Part(text='hello')])
        context = ClientCallContext(state={'sessionId': 'me'})
        async for event in client.send_message(SendMessageRequest(message=message), context=context):
            if event.HasField('task'):
                print(event.task.id)


asyncio.run(main(*sys.argv[1:]))
