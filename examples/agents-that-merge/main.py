"""Three agents work on one project in parallel and merge. Two of them change the same line."""

import asyncio
import os
import time
from contextlib import AsyncExitStack, suppress
from typing import Any

from workspace_sdk import Project, Sandbox, WorkspaceClient
from workspace_sdk.errors import NameTakenError

PAGE = "# Site\n\nWelcome.\n\nContact: soon\n"
WORK = {
    "ada": "sed -i 's/Welcome./Welcome to our site./' page.md",
    "bob": "sed -i 's/Welcome./Hello and welcome./' page.md; echo '# Questions' > faq.md",
    "cleo": "sed -i 's/soon/team@example.com/' page.md",
}


async def join(client: WorkspaceClient, project: Project, agent: str, cleanup: AsyncExitStack) -> Sandbox:
    """Creates a key for the agent, and with it the agent's own copy of the project."""
    # The agent may exist since an earlier run.
    with suppress(NameTakenError):
        await client.agents.create(name=agent)
    key = await client.keys.create(name=f"example: {agent}", agent=agent, expires_in_seconds=600)
    cleanup.push_async_callback(client.keys.delete, key.id)
    if not key.secret:
        raise RuntimeError("the response with the secret was lost; create another key")
    own = await cleanup.enter_async_context(WorkspaceClient(api_key=key.secret))
    template = os.environ.get("ELEVO_TEMPLATE", "base")
    return await cleanup.enter_async_context(await own.sandbox.create(template=template, project=project.id))


async def run(box: Sandbox, command: str) -> None:
    """Runs a command, which must succeed."""
    (await box.process.run(command)).check()


async def merge(agent: str, box: Sandbox) -> None:
    """Merges the work of an agent into the project, and shows the result."""
    result = await box.merge(message=f"the work of {agent}")
    print(f"{agent}: landed {paths(result.landed)}; in conflict {paths(result.conflicts)}")


def paths(files: list[Any]) -> str:
    """Returns the paths of changes as one text."""
    return ", ".join(file.path for file in files) or "nothing"


async def show_reviews(client: WorkspaceClient, project: Project) -> None:
    """Shows the changes that wait for a decision."""
    async for review in client.reviews.list(project=project.id, state="open"):
        print(f'open review of {review.path}, from the merge "{review.message}"')
        for hunk in review.hunks:
            print(f"  the project has: {(hunk.project or '').strip()}")
            print(f"  the agent has:   {(hunk.workspace or '').strip()}")


async def main() -> None:
    """Lets the agents work, and deletes everything at the end, also after an error."""
    async with AsyncExitStack() as cleanup:
        client = await cleanup.enter_async_context(WorkspaceClient())
        project = await client.projects.create(name=f"agents-{time.time_ns()}")
        cleanup.push_async_callback(project.delete)
        await project.apply(files=[{"path": "page.md", "content": PAGE}], merge={"message": "a page"})

        team = {agent: await join(client, project, agent, cleanup) for agent in WORK}
        await asyncio.gather(*(run(box, WORK[agent]) for agent, box in team.items()))

        # Merges may run in parallel, too. One after the other, the output is the same in each run.
        for agent, box in team.items():
            await merge(agent, box)
        await show_reviews(client, project)
        print(f"the project's page:\n{(await project.files.read('page.md')).strip()}")


asyncio.run(main())
