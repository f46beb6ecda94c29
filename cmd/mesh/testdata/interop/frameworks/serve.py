"""Serves an agent of a framework until the input ends.

Programs of agents are called with PORT MODEL [TOKEN]: the port to serve on, the
base URL of a model that speaks chat completions, and a bearer token that every
call needs, but those for cards.
"""

import asyncio
import contextlib
import sys

import uvicorn


class Guard:
    """Lets through what has the token."""

    def __init__(self, app, token):
        self.app, self.wanted = app, b'Bearer ' + token.encode()

    async def __call__(self, scope, receive, send):
        path = scope.get('path', '')
        if scope['type'] != 'http' or '.well-known' in path or dict(scope['headers']).get(b'authorization') == self.wanted:
            await self.app(scope, receive, send)
            return
        await send({'type': 'http.response.start', 'status': 401, 'headers': [(b'www-authenticate', b'Bearer')]})
        await send({'type': 'http.response.body', 'body': b''})


def arguments():
    """Returns port, base URL of the model, and token or ''."""
    return int(sys.argv[1]), sys.argv[2], (sys.argv[3:] or [''])[0]


def serve(app):
    asyncio.run(_serve(app))


async def _serve(app):
    port, _, token = arguments()
    server = uvicorn.Server(uvicorn.Config(Guard(app, token) if token else app, host='127.0.0.1', port=port, log_level='warning'))
    serving = asyncio.create_task(server.serve())
    while not server.started and not serving.done():
        await asyncio.sleep(0.02)
    print('ready', flush=True)
    ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    await asyncio.wait([serving, ended], return_when=asyncio.FIRST_COMPLETED)
    server.should_exit = server.force_exit = True
    with contextlib.suppress(asyncio.CancelledError):
        await serving
