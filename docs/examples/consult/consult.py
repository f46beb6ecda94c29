"""Asks an agent that has several others work, and shows who says what.

Usage: consult.py MESH AGENT QUESTION, as in
consult.py http://127.0.0.1:7480 research "How long does a refund take?"
It needs nothing but the standard library.
"""

import json
import sys
import urllib.error
import urllib.request
import uuid

MESH, AGENT, QUESTION = sys.argv[1:]
EXTENSION = "urn:agentmesh:ext:mesh:v1"


def call(path, body=None):
    headers = {"Content-Type": "application/json", "A2A-Extensions": EXTENSION}
    data = None if body is None else json.dumps(body).encode()
    try:
        return urllib.request.urlopen(urllib.request.Request(MESH + path, data, headers))
    except urllib.error.HTTPError as refusal:
        sys.exit(f"{path}: {refusal.code} {refusal.read().decode()}")


def updates(thread):
    """Yields what the turn tells, as it comes."""
    message = {"messageId": str(uuid.uuid4()), "contextId": thread, "role": "ROLE_USER",
               "parts": [{"text": QUESTION}], "metadata": {EXTENSION: {"detail": True}}}
    with call(f"/agents/{AGENT}/message:stream", {"message": message}) as stream:
        for line in stream:
            if line.startswith(b"data: "):
                yield json.loads(line[6:])


def show(*words, text):
    print(*words, json.dumps(text, ensure_ascii=False), flush=True)


thread = str(uuid.uuid4())
subtasks = []  # ids, as they were begun
state = "TASK_STATE_UNSPECIFIED"
for update in updates(thread):
    if "error" in update:
        sys.exit(update["error"]["message"])
    if "artifactUpdate" in update:
        parts = update["artifactUpdate"]["artifact"]["parts"]
        show("answer:", text="".join(p.get("text", "") for p in parts))
    if "statusUpdate" in update:
        status = update["statusUpdate"]
        state = status["status"]["state"]
        of = status.get("metadata", {}).get(EXTENSION, {}).get("execution")
        if of and of["parent"] != status["taskId"]:  # below the agent that was asked
            if of["id"] not in subtasks:
                subtasks.append(of["id"])
            if of["state"] == "output":
                show(of["agent"], "says:", text=of["text"])

for id in subtasks:
    with call(f"/mesh/v1/threads/{thread}/executions/{id}") as answer:
        x = json.load(answer)["execution"]
    of = x["execution"]
    show(of["label"], "by", of["agent"], "is", x["status"], x.get("reason", "-") + ":", text=x.get("result", ""))

print(state)
sys.exit(state != "TASK_STATE_COMPLETED")
