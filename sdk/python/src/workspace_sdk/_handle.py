"""Objects with the fields of a response and methods of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any


class Handle:
    """Has the fields of a model, which `reload` and other methods replace with newer ones."""

    _data: Any

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            return getattr(self._data, name)

    def __repr__(self) -> str:
        shown = ("id", "name", "state", "path")
        fields = {name: getattr(self._data, name, None) for name in shown}
        text = ", ".join(f"{name}={value!r}" for name, value in fields.items() if value is not None)
        return f"{type(self).__name__}({text})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and bool(self._data.id == getattr(other, "id", None))

    def __hash__(self) -> int:
        return hash((type(self).__name__, self._data.id))


# A type checker knows the fields from the models. At run time the models are imported when they are first used.
if TYPE_CHECKING:
    from ._generated import models

    class ProjectFields(Handle, models.Project):
        """The fields of a project."""

    class ReviewFields(Handle, models.Review):
        """The fields of a review."""

    class SandboxFields(Handle, models.Sandbox):
        """The fields of a sandbox."""

    class SnapshotFields(Handle, models.Snapshot):
        """The fields of a snapshot."""

    class TakenFields(Handle, models.SnapshotTaken):
        """The fields of a snapshot that was just taken."""

    class WorkspaceFields(Handle, models.Workspace):
        """The fields of a workspace."""
else:
    ProjectFields = ReviewFields = SandboxFields = SnapshotFields = TakenFields = WorkspaceFields = Handle
