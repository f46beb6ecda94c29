"""Sends a message to the mesh and reads the answer as server-sent events.

Usage: sse.py BASE-URL TEXT PIECES. After so many pieces of output it drops the
connection, says so, and resumes the stream with Last-Event-ID. It needs nothing
but the standard library.
"""

import http.client
import json
import sys
from urllib.parse import urlsplit

host = urlsplit(sys.argv[1]).netloc


def call(method, path, body=None, **headers):
    """Returns the connection and the response, which must be 200."""
    conn = http.client.HTTPConnection(host, timeout=15)
    data = None if body is None else json.dumps(body)
    if data is not None:
        headers["Content-Type"] = "application/json"
    conn.request(method, path, data, headers)
    resp = conn.getresponse()
    if resp.status != 200:
        sys.exit(f"{method} {path}: {resp.status} {resp.read()!r}")
    return conn, resp


def events(resp):
    """Yields (id, data) of each event."""
    last, data = None, []
    for raw in resp:
        line = raw.decode().rstrip("\n")
        if line == "":
            if data:
                yield last, json.loads("\n".join(data))
            data = []
        elif line.startswith("id: "):
            last = int(line[4:])
        elif line.startswith("data: "):
            data.append(line[6:])


def text(artifact):
    return "".join(p.get("text", "") for p in artifact["parts"])


out = {"Before": "", "After": "", "Stored": "", "State": "", "IDs": []}
last, task, pieces = None, None, 0


def read(resp, into, most):
    """Reads until the stream ends or has had most pieces."""
    global last, task, pieces
    for last, event in events(resp):
        if "task" in event:
            task = event["task"]["id"]
            continue
        out["IDs"].append(last)
        if "statusUpdate" in event:
            out["State"] = event["statusUpdate"]["status"]["state"]
        elif "artifactUpdate" in event:
            out[into] += text(event["artifactUpdate"]["artifact"])
            pieces += 1
            if pieces == most:
                return


message = {"messageId": "m-python", "role": "ROLE_USER", "parts": [{"text": sys.argv[2]}]}
conn, resp = call("POST", "/message:stream", {"message": message}, Accept="text/event-stream")
read(resp, "Before", int(sys.argv[3]))
resp.close()
conn.close()
print("dropped", flush=True)

conn, resp = call("GET", f"/tasks/{task}:subscribe", **{"Accept": "text/event-stream", "Last-Event-ID": str(last)})
read(resp, "After", -1)
conn.close()

conn, resp = call("GET", f"/tasks/{task}")
out["Stored"] = "".join(text(a) for a in json.load(resp)["artifacts"])
conn.close()
print(json.dumps(out))
