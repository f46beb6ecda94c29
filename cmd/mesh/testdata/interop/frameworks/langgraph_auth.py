"""Lets in who has the token of langgraph_agent.py."""

import os

from langgraph_sdk import Auth

auth = Auth()


@auth.authenticate
async def authenticate(authorization: str | None):
    if authorization != 'Bearer ' + os.environ['SCRIPTED_TOKEN']:
        raise Auth.exceptions.HTTPException(status_code=401, detail='no token')
    return {'identity': 'caller'}
