"""Forks a sandbox n times, tries another change in each fork, and merges the best one."""

import asyncio
import os
import sys
import time

from workspace_sdk import Sandbox, WorkspaceClient

N = 4
TESTS = """
failed=0
check() {
  if [ "$(sh slug.sh "$1")" = "$2" ]; then echo "ok $1"; else echo "not ok $1"; failed=1; fi
}
check 'Hello' 'hello'
check 'Hello World' 'hello-world'
check 'Two  spaces' 'two-spaces'
check "It's here!" 'its-here'
exit $failed
"""


def propose(index: int) -> str:
    """A stand-in for a model: returns the content of slug.sh for one attempt.

    Replace it with a call to your model, with the output of the tests in the prompt.
    """
    attempts = [
        """echo "$1" | tr A-Z a-z""",
        """echo "$1" | tr A-Z a-z | tr ' ' -""",
        """echo "$1" | tr A-Z a-z | tr -d '[:punct:]' | tr -s ' ' -""",
        """echo "$1" | tr A-Z a-z | tr -s ' ' -""",
    ]
    return attempts[index % len(attempts)] + "\n"


async def attempt(box: Sandbox, index: int) -> int:
    """Makes one attempt in its own fork. Returns how many tests pass."""
    await box.files.write("slug.sh", propose(index))
    run = await box.process.run("sh test.sh")
    return sum(line.startswith("ok ") for line in run.stdout.splitlines())


async def merge_best(client: WorkspaceClient, box: Sandbox) -> None:
    """Makes all attempts in parallel, and merges the best one into the project."""
    result = await box.fork(count=N)
    for failure in result.failed:
        print(f"a fork failed: {failure.error.message}", file=sys.stderr)
    forks = result.succeeded
    if not forks:
        raise SystemExit("no fork succeeded")
    try:
        passed = await asyncio.gather(*(attempt(fork, index) for index, fork in enumerate(forks)))
        for index, count in enumerate(passed):
            print(f"attempt {index}: {count} of 4 tests pass")

        best = passed.index(max(passed))
        merge = await forks[best].merge(message=f"attempt {best}")
        print(f"attempt {best} landed: {', '.join(file.path for file in merge.landed)}")
    finally:
        deleted = await client.sandbox.batch_delete([fork.id for fork in forks])
        for failure in deleted.failed:
            print(f"the fork {failure.id} was not deleted: {failure.error.message}", file=sys.stderr)


async def main() -> None:
    """Creates a project with a failing test, and has it repaired."""
    async with WorkspaceClient() as client:
        project = await client.projects.create(name=f"best-of-n-{time.time_ns()}")
        try:
            files = [{"path": "slug.sh", "content": 'echo "$1"\n'}, {"path": "test.sh", "content": TESTS}]
            await project.apply(files=files, merge={"message": "a failing test"})

            # The sandbox has a workspace on the project, and so have its forks.
            template = os.environ.get("ELEVO_TEMPLATE", "base")
            async with await client.sandbox.create(template=template, project=project.id) as box:
                print(f"before: exit code {(await box.process.run('sh test.sh')).exit_code}")
                await merge_best(client, box)
            print(f"the project's slug.sh: {(await project.files.read('slug.sh')).strip()}")
        finally:
            await project.delete()


asyncio.run(main())
