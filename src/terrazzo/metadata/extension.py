"""An extension point's value: a name with a configuration, as documents spell data types, grids, codecs and the like.

What it does not do: know any name.

https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html#extension-definition
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from typing import Any

from terrazzo.metadata.problems import describe, doubt, join, refuse

__all__ = ["Extension"]


@dataclass(frozen=True)
class Extension:
    """A name with its configuration; `must_understand` False lets a reader that does not know the name go on."""

    name: str
    configuration: dict[str, Any] = field(default_factory=dict)
    must_understand: bool = True

    @classmethod
    def from_json(
        cls, value: object, path: str = "", *, ignorable: bool = False, strict: bool = True
    ) -> Extension:
        """Read the object or the short-hand string; `ignorable`: whether `must_understand` may be false here."""
        if isinstance(value, str):
            value = {"name": value}
        if not isinstance(value, dict):
            refuse(
                path,
                f'found {describe(value)}, must be a name or an object {{"name": ..., "configuration": ...}}',
            )
        name = value.get("name")
        if not isinstance(name, str) or not name:
            found = describe(name) if "name" in value else "nothing"
            refuse(join(path, "name"), f"found {found}, must be the name as a string")
        configuration = value.get("configuration", {})
        if configuration is None:
            doubt(join(path, "configuration"), "found null, must be an object or absent", strict=strict)
            configuration = {}
        if not isinstance(configuration, dict):
            refuse(join(path, "configuration"), f"found {describe(configuration)}, must be an object")
        must_understand = value.get("must_understand", True)
        if not isinstance(must_understand, bool):
            refuse(join(path, "must_understand"), f"found {describe(must_understand)}, must be true or false")
        if not must_understand and not ignorable:
            refuse(
                join(path, "must_understand"),
                "found false, which is not available here: no reader could go on",
            )
        unknown = sorted(value.keys() - {"name", "configuration", "must_understand"})
        if unknown:
            refuse(
                join(path, unknown[0]),
                "is not a member of an extension; only `name`, `configuration` and `must_understand` are",
            )
        return cls(name, copy.deepcopy(configuration), must_understand)

    def to_json(self) -> dict[str, Any]:
        """The form that every known reader accepts: always an object, never with `must_understand`."""
        # zarr-python reads the codecs of numcodecs with a configuration alone, though it be empty
        if not self.configuration and not self.name.startswith("numcodecs."):
            return {"name": self.name}
        return {"name": self.name, "configuration": copy.deepcopy(self.configuration)}

    def __hash__(self) -> int:
        return hash((self.name, json.dumps(self.configuration, sort_keys=True, default=repr)))
