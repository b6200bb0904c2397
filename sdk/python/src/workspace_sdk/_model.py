"""The base of the generated models."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """An object of the API. Fields that this version does not know are ignored."""

    # Most programs use few of the models, so each is built when it is first used.
    model_config = ConfigDict(extra="ignore", populate_by_name=True, defer_build=True, protected_namespaces=())
