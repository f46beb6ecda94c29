"""A client on the Python SDK of MCP, which knows nothing of the mesh.

Usage: mcptools.py VERSION WORD WITNESS URL
       mcptools.py VERSION WORD WITNESS -- COMMAND ARGUMENT...

It talks in the newest version of the protocol, in the oldest, or in the last one
that begins with a handshake (newest, oldest, handshake), lists the tools, calls
those of the server words, and prints one JSON object of what it saw. The witness
is asked what the tools did.
"""

import json
import os
import sys
import urllib.request

import anyio
import mcp_types as types

import mcp.client.session
from mcp import Client, StdioServerParameters
from mcp_types.version import LATEST_HANDSHAKE_VERSION, OLDEST_SUPPORTED_VERSION


async def witness(url, what):
    def ask():
        with urllib.request.urlopen(url, data=what.encode(), timeout=30) as answer:
            return answer.read().decode()

    return await anyio.to_thread.run_sync(ask)


def piece(c):
    match c:
        case types.TextContent():
            return "text"
        case types.ImageContent() | types.AudioContent():
            return f"{c.mime_type} {c.data}"
        case types.ResourceLink():
            return f"{c.mime_type} {c.uri} {c.name}"
        case types.EmbeddedResource(resource=types.TextResourceContents() as r):
            return f"{r.mime_type} {r.uri} {r.text}"
        case types.EmbeddedResource(resource=r):
            return f"{r.mime_type} {r.uri} {r.blob}"


def told(result):
    words = " ".join(c.text for c in result.content if isinstance(c, types.TextContent))
    return {"failed": bool(result.is_error), "text": words}


async def cancel(client, word, where):
    """Calls a tool that does not end, and cancels the call."""
    arguments = {"word": word}
    async with anyio.create_task_group() as calls:
        calls.start_soon(client.call_tool, "words-print", arguments)
        while await witness(where, "? " + word) == "0":
            await anyio.sleep(0.05)
        calls.cancel_scope.cancel()


async def main(version, word, where, *server):
    answer = {}

    async def elicit(_context, params):
        answer["asked"] = params.message
        return types.ElicitResult(**answer["says"])

    async def step(progress, _total, message):
        steps.append([progress, message])
        await witness(where, "finish step " + word)

    saw, steps = {}, []
    if version == "oldest":
        mcp.client.session.LATEST_HANDSHAKE_VERSION = OLDEST_SUPPORTED_VERSION
    target = server[0]
    if target == "--":
        target = StdioServerParameters(command=server[1], args=list(server[2:]), env=dict(os.environ))
    mode = "auto" if version == "newest" else "legacy"
    async with Client(target, mode=mode, elicitation_callback=elicit) as client:
        saw["version"] = client.session.protocol_version
        tools = {}
        cursor = None
        while True:
            page = await client.list_tools(cursor=cursor)
            tools.update({t.name: t for t in page.tools})
            cursor = page.next_cursor
            if not cursor:
                break
        saw["promises"] = bool(tools["words-draw"].output_schema)
        drawn = await client.call_tool("words-draw", {})
        saw["pieces"] = [piece(c) for c in drawn.content]
        saw["structured"] = drawn.structured_content
        saw["counted"] = told(await client.call_tool("words-count", {"word": word}, progress_callback=step))
        saw["steps"] = steps
        await cancel(client, word, where)
        for name, says in {
            "yes": {"action": "accept", "content": {"approve": True}},
            "no": {"action": "accept", "content": {"approve": False}},
            "decline": {"action": "decline"},
            "dismiss": {"action": "cancel"},
        }.items():
            answer["says"] = says
            saw[name] = told(await client.call_tool("words-erase", {"word": f"{name} {word}"}))
        saw["asked"] = answer.get("asked", "")
        saw["wrong"] = told(await client.call_tool("words-lookup", {"wort": "x"}))
        saw["lie"] = told(await client.call_tool("words-lie", {}))
        try:
            await client.call_tool("words-absent", {})
            saw["unknown"] = ""
        except mcp.MCPError as e:
            saw["unknown"] = str(e)
    async with Client(target, mode=mode) as client:
        saw["plain"] = told(await client.call_tool("words-erase", {"word": f"plain {word}"}))
    print(json.dumps(saw))


assert LATEST_HANDSHAKE_VERSION != OLDEST_SUPPORTED_VERSION
anyio.run(main, *sys.argv[1:])
