"""Runs a client of a framework by what its input says.

Programs of clients are called with URL [TOKEN]: where the agent's card is, and a
bearer token to send. Each line of the input is a JSON object: "say" has a text
to say in the one conversation, "data" and "file" what to send with it, and
"cancel" says to cancel the task as soon as the text in it was heard. For each
line a line of JSON comes out, of what was heard; pieces come before, one in a
line, as {"piece": text}.
"""

import asyncio
import json
import sys


def arguments():
    """Returns the URL, and the token or ''."""
    return sys.argv[1], (sys.argv[2:] or [''])[0]


def tell(**what):
    print(json.dumps(what), flush=True)


def converse(said):
    """Calls said(line) for each line; it returns what was heard as a dict."""
    asyncio.run(_converse(said))


async def _converse(said):
    while line := await asyncio.to_thread(sys.stdin.readline):
        try:
            heard = await said(json.loads(line))
        except Exception as err:  # what a user of the framework would see
            heard = {'error': f'{type(err).__name__}: {err}'}
        tell(heard=heard)
