"""Decides open reviews by a rule, as they open.

`--follow PROJECT` decides those of your project until you stop it; without arguments, the bot
works on a project with three conflicts.
"""

import sys
import time

from workspace_sdk.errors import WorkspaceError
from workspace_sdk.sync import Project, Review, WorkspaceClient


def decide(review: Review) -> Review:
    """The rule: takes the content that the server merged, the newer version of a document, or nothing.

    Replace it with your own rule, or with a question to a model.
    """
    if review.suggestion == "merged":
        return review.resolve("suggested", message=review.reason)
    if review.path.endswith(".md"):
        return review.resolve("workspace", message="the newer text wins in documents")
    return review.resolve("nothing", message="code needs a person: refresh, resolve the conflict, and merge again")


def run(client: WorkspaceClient, project: Project, follow: bool) -> None:
    """Decides the open reviews of a project; with `follow`, also those that open later."""
    # Cursor 0 begins with the oldest event that the server keeps, so reviews that opened before the bot count.
    # The stream continues after a lost connection, and reports events that were deleted as a gap. An event or
    # a gap means that there may be work, and the list has the work.
    for _ in client.events.stream(project=project.id, kinds=["review.opened"], cursor="0"):
        for review in client.reviews.list(project=project.id, state="open"):
            try:
                decided = decide(review)
            except WorkspaceError as error:
                # A person may have decided the review meanwhile; the bot goes on with the others.
                print(f"{review.path}: {error}", file=sys.stderr)
                continue
            print(f'{decided.path}: {decided.kind}; took {decided.take}, "{decided.decision_message}"')
        if not follow:
            return


def conflicts(client: WorkspaceClient, project: Project) -> None:
    """Creates three conflicts: both workspaces change the log, and one removes two files that the other edits."""
    files = {"CHANGES": "Changes:\n", "docs/setup.md": "Run setup.\n", "src/setup.sh": "echo setup\n"}
    project.apply(files=[{"path": path, "content": content} for path, content in files.items()])
    first = client.workspaces.create(project=project.id, name="first")
    second = client.workspaces.create(project=project.id, name="second")

    first.files.write("CHANGES", "Changes:\n- no setup\n")
    first.files.delete("docs/setup.md")
    first.files.delete("src/setup.sh")
    first.merge(message="remove the setup")

    second.files.write("CHANGES", "Changes:\n- a faster setup\n")
    second.files.write("docs/setup.md", "Run setup. It is fast.\n")
    second.files.write("src/setup.sh", "echo fast setup\n")
    second.merge(message="a faster setup")


with WorkspaceClient() as client:
    if sys.argv[1:2] == ["--follow"]:
        run(client, client.projects.get(sys.argv[2]), follow=True)
    else:
        project = client.projects.create(name=f"review-bot-{time.time_ns()}")
        try:
            conflicts(client, project)
            run(client, project, follow=False)
            print(project.files.read("CHANGES").strip())
        finally:
            project.delete()
