"""The types of the API in words: schemas of the description, as JSON Schema 2020-12."""

from __future__ import annotations

from typing import Any

from . import markdown

Schema = dict[str, Any]

# Limits and defaults of a value, with their words.
_LIMITS = {
    "default": "default {}",
    "minimum": "at least {}",
    "maximum": "at most {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "pattern": "matches {}",
}


class Types:
    """Links to the page of types."""

    def __init__(self, page: str) -> None:
        self._page = page

    def words(self, schema: Schema) -> str:
        """Returns the type of a value, in a few words and with links."""
        if reference := schema.get("$ref"):
            name = reference.rsplit("/", 1)[1]
            return f"[{name}]({self._page}#{name.lower()})"
        for key in ("oneOf", "anyOf", "allOf"):
            if choices := schema.get(key):
                return " or ".join(dict.fromkeys(self.words(choice) for choice in choices))
        if values := schema.get("enum") or schema.get("x-extensible-enum"):
            return " or ".join(f"`{value}`" for value in values)
        kinds = schema.get("type", "any")
        kinds = kinds if isinstance(kinds, list) else [kinds]
        return " or ".join(self._kind(kind, schema) for kind in kinds)

    def _kind(self, kind: str, schema: Schema) -> str:
        if kind == "array":
            return f"array of {self.words(schema.get('items', {}))}"
        extra = schema.get("additionalProperties")
        if kind == "object" and isinstance(extra, dict):
            return f"object with values of {self.words(extra)}"
        if kind == "string" and schema.get("format") in ("date-time", "binary", "uri"):
            return {"date-time": "time", "binary": "bytes", "uri": "URL"}[schema["format"]]
        return str(kind)

    def fields(self, schema: Schema) -> list[str]:
        """Returns a table of the fields of an object."""
        required = schema.get("required", [])
        rows = [
            [f"`{name}`", self.words(field) + needed(name in required), describe(field)]
            for name, field in schema.get("properties", {}).items()
        ]
        return markdown.table(["field", "type", ""], rows) if rows else []

    def definition(self, name: str, schema: Schema) -> list[str]:
        """Returns the section of a type."""
        lines = [f"## {name}", ""]
        if description := schema.get("description"):
            lines += [markdown.text(description), ""]
        variants = schema.get("oneOf") or schema.get("anyOf") or schema.get("allOf")
        if variants:
            lines += self._variants(variants)
        elif "properties" in schema:
            lines += self.fields(schema)
        else:
            lines += [f"{_capital(self.words(schema))}.{_limits_sentence(schema)}", ""]
        return lines

    def _variants(self, variants: list[Schema]) -> list[str]:
        lines = ["One of:", ""]
        for variant in variants:
            about = markdown.cell(variant.get("description", ""))
            lines += [f"- {self.words(variant)}{_colon(about)}"]
            required = variant.get("required", [])
            for name, field in variant.get("properties", {}).items():
                # The only field of a variant often has the same description.
                own = describe(field) if describe(field) != about else ""
                lines += [f"  - `{name}` ({self.words(field)}{needed(name in required)}){_colon(own)}"]
        return [*lines, ""]


def needed(is_required: bool) -> str:
    """Returns the words for a value that a request or a response must have."""
    return ", required" if is_required else ""


def describe(schema: Schema) -> str:
    """Returns the description of a value, with its limits."""
    limits = _limits(schema)
    own = schema.get("description") or next(
        (part["description"] for part in schema.get("oneOf", []) if "description" in part), ""
    )
    return markdown.cell(own) + (f" ({', '.join(limits)})" if limits else "")


def _limits(schema: Schema) -> list[str]:
    # A minimum of 0 says only that a number is not negative.
    found = {key: schema[key] for key in _LIMITS if key in schema and (key, schema[key]) != ("minimum", 0)}
    return [_LIMITS[key].format(f"`{value}`".replace("|", "\\|")) for key, value in found.items()]


def _limits_sentence(schema: Schema) -> str:
    limits = _limits(schema)
    return f" {_capital(', '.join(limits))}." if limits else ""


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def _colon(description: str) -> str:
    return f": {description}" if description else ""
