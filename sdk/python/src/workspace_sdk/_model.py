"""The base of the generated models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, ValidationError

from ._errors import WorkspaceError

if TYPE_CHECKING:
    from typing_extensions import Self


class Model(BaseModel):
    """An object of the API. Fields that this version does not know are ignored."""

    # Most programs use few of the models, so each is built when it is first used.
    model_config = ConfigDict(extra="ignore", populate_by_name=True, defer_build=True, protected_namespaces=())

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **options: Any) -> Self:
        """Returns the object of a response. Raises an error of this package if the response has another form."""
        try:
            return super().model_validate_json(json_data, **options)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            raise WorkspaceError(
                f"the response is not a `{cls.__name__}` of an Elevo server: {first['msg']} {place}".rstrip(),
                remediation="Check the address and the version of the server, and proxies in front of it.",
            ) from error
