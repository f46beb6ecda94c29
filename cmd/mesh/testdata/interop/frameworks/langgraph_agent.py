"""LangGraph's server, as `langgraph dev` starts it, with one graph. Its arguments
are those of serve.py."""

import json
import os
import sys
import threading
import time
import urllib.request

from langgraph_api.cli import run_server

port, model, token = int(sys.argv[1]), sys.argv[2], (sys.argv[3:] or [''])[0]
here = os.path.dirname(os.path.abspath(__file__))
os.environ['SCRIPTED_MODEL'], os.environ['SCRIPTED_TOKEN'] = model, token


def watch():
    while True:
        try:
            search = urllib.request.Request(f'http://127.0.0.1:{port}/assistants/search', b'{}', {
                'Content-Type': 'application/json', 'Authorization': 'Bearer ' + token})
            assistant = json.load(urllib.request.urlopen(search, timeout=5))[0]['assistant_id']
            break
        except (OSError, IndexError):
            time.sleep(0.2)
    print(f'ready /a2a/{assistant}/.well-known/agent-card.json', flush=True)
    sys.stdin.read()
    os._exit(0)


threading.Thread(target=watch, daemon=True).start()
run_server('127.0.0.1', port, reload=False, open_browser=False, graphs={'talker': here + '/langgraph_graph.py:graph'},
           auth={'path': here + '/langgraph_auth.py:auth'} if token else None)
