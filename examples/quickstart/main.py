"""Creates a sandbox, runs a command, writes a file, and shows the changes since a snapshot."""

import os

# `workspace_sdk` has the same client with `async` and `await`.
from workspace_sdk.sync import WorkspaceClient

# Uses ELEVO_SERVER and ELEVO_API_KEY, or the server that `elevo up` started.
with (
    WorkspaceClient() as client,
    # `with` deletes the sandbox at the end, also after an error.
    client.sandbox.create(template=os.environ.get("ELEVO_TEMPLATE", "base")) as box,
):
    print(f"{box.id} is {box.state}")

    # An exit code other than 0 is a result, not an error.
    run = box.process.run("echo hello; exit 3")
    print(f"exit code {run.exit_code}, output: {run.stdout.strip()}")

    box.files.write("notes/plan.txt", "write a test\n")
    print(f"plan: {box.files.read('notes/plan.txt').strip()}")

    before = box.snapshot(message="the plan")

    # `check` raises an error unless the exit code is 0.
    box.process.run("echo fix the bug >> notes/plan.txt; echo done > report.txt").check()

    for change in box.diff(from_=before).changes:
        print(f"{change.kind}: {change.path}")

    box.restore(before)
    print(f"after the restore: {box.files.read('notes/plan.txt').strip()}")
