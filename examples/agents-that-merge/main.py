"""Three agents work on one project in parallel and merge. Two of them change the same line."""

import asyncio
import os
import time
from typing import Any

from workspace_sdk import Project, Sandbox, WorkspaceClient
from workspace_sdk.errors import NameTakenError

PAGE = "# Site\n\nWelcome.\n\nContact: soon\n"
WORK = {
    "ada": "sed -i 's/Welcome./Welcome to our site./' page.md",
    "bob": "sed -i 's/Welcome./Hello and welcome./' page.md; echo '# Questions' > faq.md",
    "cleo": "sed -i 's/soon/team@example.com/' page.md",
}


async def key_of(client: WorkspaceClient, agent: str) -> Any:
    """Creates a key that acts for the agent: it sees only the sandboxes of the agent."""
    try:
        await client.agents.create(name=agent)
    except NameTakenError:
        pass  # The agent exists since an earlier run.
    return await client.keys.create(name=f"{agent}, example", agent=agent, expires_in_seconds=600)


async def change(own: WorkspaceClient, project: Project, command: str) -> Sandbox:
    """Creates the agent's own copy of the project, and changes it."""
    template = os.environ.get("ELEVO_TEMPLATE", "base")
    box = await own.sandbox.create(template=template, project=project.id, metadata={"example": project.id})
    (await box.process.run(command)).check()
    return box


def paths(files: list[Any]) -> str:
    return ", ".join(file.path for file in files) or "nothing"


async def merge_and_show(client: WorkspaceClient, project: Project, boxes: dict[str, Sandbox]) -> None:
    # Merges may run in parallel, too. One after the other, the output is the same in each run.
    for agent, box in boxes.items():
        merge = await box.merge(message=f"the work of {agent}")
        print(f"{agent}: landed {paths(merge.landed)}; in conflict {paths(merge.conflicts)}")

    async for review in client.reviews.list(project=project.id, state="open"):
        print(f'open review of {review.path}, because of "{review.message}"')
        for hunk in review.hunks:
            print(f"  the project has: {hunk.project.strip()}")
            print(f"  the agent has:   {hunk.workspace.strip()}")
    print(f"the project's page:\n{await project.files.read('page.md')}")


async def main() -> None:
    async with WorkspaceClient() as client:
        project = await client.projects.create(name=f"agents-{time.time_ns()}")
        keys = [await key_of(client, agent) for agent in WORK]
        try:
            await project.apply(files=[{"path": "page.md", "content": PAGE}], merge={"message": "a page"})
            clients = [WorkspaceClient(api_key=key.secret) for key in keys]
            changes = [change(own, project, command) for own, command in zip(clients, WORK.values())]
            boxes = await asyncio.gather(*changes)
            await merge_and_show(client, project, dict(zip(WORK, boxes)))
        finally:
            async for box in client.sandbox.list(metadata={"example": project.id}):
                await box.delete()
            for key in keys:
                await client.keys.delete(key.id)
            await project.delete()


asyncio.run(main())
