"""Gives the types of the schema names, in a copy of the sources for TypeDoc: name_types.py DIRECTORY

The sources refer to a type of the API as `Schemas['Template']`, which TypeDoc would write out at
each use. In the copy, each such type is an interface of its own, and the module exports all of them.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

OTHER_VALUE = """\
/** A value that this version does not know, of a newer server. */
export type OtherValue = string & {}
"""


def main(directory: Path) -> None:
    """Rewrites the sources in the directory."""
    schema = directory / "generated" / "schema.ts"
    schema.write_text(named(schema.read_text()))
    for path in directory.glob("*.ts"):
        path.write_text(with_names(path.read_text()))
    index = directory / "index.ts"
    index.write_text(index.read_text() + "export * from './generated/schema.js'\n")


def named(text: str) -> str:
    """Returns the schema with one declaration for each type."""
    # TypeDoc does not know this tag, and a format says nothing to a caller.
    text = re.sub(r"@description ", "", text)
    text = re.sub(r"^ *\* (@enum|Format:).*\n", "", text, flags=re.MULTILINE)
    text = text.replace("(string & {})", "OtherValue")
    text = re.sub(r'components\["schemas"\]\["(\w+)"\]', r"\1", text)
    body = text[text.index("schemas: {\n") + len("schemas: {\n") : text.index("\n    };\n")]
    names = re.findall(r"^ {8}(\w+): ", body, re.MULTILINE)
    # An object ends with the first line of the same indentation; other types go on there.
    body = re.sub(
        r"^ {8}(\w+): (\{\n(?: {9}.*\n)* {8}\});$", r"        export interface \1 \2", body, flags=re.MULTILINE
    )
    body = re.sub(r"^ {8}(\w+): ", r"        export type \1 = ", body, flags=re.MULTILINE)
    lines = (line.removeprefix("        ") for line in body.splitlines())
    fields = "".join(f"{name}: {name}; " for name in names)
    return "\n".join([OTHER_VALUE, *lines, f"export interface components {{ schemas: {{ {fields}}} }}", ""])


def with_names(text: str) -> str:
    """Returns a source that exports types of the schema instead of aliases with the same name."""
    alias = re.compile(r"^export type (\w+) = Schemas\['\1'\]$", re.MULTILINE)
    return alias.sub(r"import type { \1 } from './generated/schema.js'\nexport type { \1 }", text)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
