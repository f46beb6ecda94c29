"""Calls a mesh with the client that openapi-python-client generated from its document.

Usage: openapi.py URL, with the generated package "mesh_client" in PYTHONPATH. Prints
what it found as one line of JSON.
"""

import json
import sys

from mesh_client import Client
from mesh_client.api.a2a_service import a2a_service_get_task, a2a_service_send_message
from mesh_client.api.registry_service import registry_service_list_agents
from mesh_client.api.thread_service import thread_service_list_threads
from mesh_client.models import Message, Part, A2AServiceSendMessageBody, Role


def events(client, method, path, **request):
    with client.get_httpx_client().stream(method, path, timeout=None, **request) as answer:
        if answer.is_error:
            raise RuntimeError(answer.read())
        seq = None
        for line in answer.iter_lines():
            if line.startswith("id: "):
                seq = line[4:]
            elif line.startswith("data: "):
                yield seq, json.loads(line[6:])


def say(id, text):
    message = Message(message_id=id, role=Role.ROLE_USER, parts=[Part(text=text)])
    return A2AServiceSendMessageBody(message=message)


def main():
    client = Client(base_url=sys.argv[1])
    agents = registry_service_list_agents.sync(client=client).agents
    task = a2a_service_send_message.sync(client=client, body=say("py-1", "by Python")).task
    again = a2a_service_get_task.sync(client=client, id=task.id)
    threads = thread_service_list_threads.sync(client=client).threads
    missing = a2a_service_get_task.sync(client=client, id="none").error
    heard = list(events(client, "POST", "/message:stream", json=say("py-2", "as a stream").to_dict()))
    print(json.dumps({
        "agents": sorted(a.name for a in agents),
        "said": task.artifacts[0].parts[0].text,
        "state": again.status.state.value,
        "thread": task.context_id in [t.thread_id for t in threads],
        "code": missing.code,
        "reason": [d.additional_properties.get("reason") for d in missing.details][0],
        "heard": "".join(p["text"] for _, e in heard if "artifactUpdate" in e for p in e["artifactUpdate"]["artifact"]["parts"]),
        "ids": all(seq for seq, _ in heard),
    }))


main()
