"""The graph that langgraph_agent.py serves."""

import os
from typing import Annotated, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_openai import ChatOpenAI
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import interrupt

model = ChatOpenAI(base_url=os.environ['SCRIPTED_MODEL'], api_key='none', model='scripted', max_retries=0)


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    order: str  # data parts are parameters of the graph


async def talk(state: State):
    last = state['messages'][-1].text
    if 'ask me' in last:
        return {'messages': [AIMessage('answered: ' + str(interrupt('How loud?')))]}
    more = [HumanMessage(last + ' ' + state['order'])] if state.get('order') else []
    return {'messages': [await model.ainvoke(state['messages'] + more)]}


graph = StateGraph(State).add_node('talk', talk).add_edge(START, 'talk').compile()
