"""An agent that says what to pack for a journey, on the official SDK of A2A."""

import re

import uvicorn
from a2a.helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Part
from starlette.applications import Starlette

ADDRESS = "127.0.0.1:9000"

# What the mesh and its agents know about this one. They choose it by these words.
card = AgentCard(
    name="Packer", description="Writes packing lists for journeys.", version="1.0.0",
    supported_interfaces=[AgentInterface(url="http://" + ADDRESS, protocol_binding="JSONRPC", protocol_version="1.0")],
    capabilities=AgentCapabilities(streaming=True),
    default_input_modes=["text/plain"], default_output_modes=["text/plain"],
    skills=[AgentSkill(id="pack", name="Packing list", description="Says what to pack for so many days",
                       tags=["packing", "journey", "luggage"])])


class Packer(AgentExecutor):
    async def execute(self, context, event_queue):
        """Answers one message. What it sends reaches the user at once."""
        if context.current_task is None:
            await event_queue.enqueue_event(new_task_from_user_message(context.message))
        task = TaskUpdater(event_queue, context.task_id, context.context_id)
        days = re.search(r"\d+", context.get_user_input())
        if not days:  # the answer is another call, for the same task
            await task.requires_input(task.new_agent_message([Part(text="For how many days?")]))
            return
        await task.start_work(task.new_agent_message([Part(text="Opening the wardrobe")]))
        items = ["shirts", "pairs of socks", "books"]
        for n, item in enumerate(items):
            await task.add_artifact([Part(text=f"- {days[0]} {item}\n")], artifact_id="list",
                                    append=n > 0, last_chunk=n == len(items) - 1)
        await task.complete()

    async def cancel(self, context, event_queue):
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


handler = DefaultRequestHandler(agent_executor=Packer(), task_store=InMemoryTaskStore(), agent_card=card)
app = Starlette(routes=create_agent_card_routes(card) + create_jsonrpc_routes(handler, "/"))
if __name__ == "__main__":
    host, port = ADDRESS.split(":")
    uvicorn.run(app, host=host, port=int(port))
