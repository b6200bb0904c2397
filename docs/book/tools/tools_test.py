#!/usr/bin/env python3
"""Tests of the tools of the book, without a server."""

from __future__ import annotations

import sys
import tempfile
import unittest
from pathlib import Path

# The checkout stays free of caches.
sys.dont_write_bytecode = True

import check
import fences
import links
import pages
import steps
from pages import SOURCES, Line, Page
from reference import rust


def page(*texts: str, path: str = "guides/test.md") -> Page:
    """Returns a page with these lines."""
    lines = [Line(text, SOURCES / path, number) for number, text in enumerate(texts, 1)]
    return Page("Guides", "Test", path, tuple(lines))


class Fences(unittest.TestCase):
    def test_finds_blocks_in_lists_with_their_reasons(self) -> None:
        found = fences.blocks(
            page("<!-- not run: needs a key -->", "  ```sh", "  true", "    two", "  ```", "", "```text", "```")
        )
        self.assertEqual([block.language for block in found], ["sh", "text"])
        self.assertEqual(found[0].text, "true\n  two\n")
        self.assertEqual(found[0].reason, fences.Reason("needs a key", is_test=False))
        self.assertIsNone(found[1].reason)

    def test_a_comment_about_a_language_holds_for_the_blocks_after_it(self) -> None:
        found = fences.blocks(page("<!-- ts blocks: run by a.rs -->", "text", "```ts", "```", "```sh", "```"))
        self.assertEqual([block.reason and block.reason.text for block in found], ["a.rs", None])

    def test_a_comment_for_another_block_does_not_hold(self) -> None:
        found = fences.blocks(page("<!-- not run: reason -->", "text", "```sh", "```"))
        self.assertIsNone(found[0].reason)


class Steps(unittest.TestCase):
    def problem(self, *texts: str) -> str:
        [block] = fences.blocks(page(*texts))
        return steps.problem(block) or ""

    def test_rejects_blocks_that_nothing_checks(self) -> None:
        self.assertIn("no language", self.problem("```", "x", "```"))
        self.assertIn("say why", self.problem("```ruby", "x", "```"))
        self.assertIn("invalid json", self.problem("```json", "{", "```"))
        self.assertIn("invalid toml", self.problem("```toml", "=", "```"))
        self.assertIn("no test", self.problem("<!-- run by crates/none.rs -->", "```sh", "```"))
        self.assertEqual("", self.problem("<!-- not run: reason -->", "```ruby", "```"))

    def test_splits_console_blocks_into_commands_and_outputs(self) -> None:
        blocks = fences.blocks(page("```console", "$ a \\", "  b", "out", "$ c", "```"))
        found = list(steps.steps(blocks, Path()))
        self.assertEqual([(step.command, step.shown) for step in found], [("a \\\n  b", ("out",)), ("c", ())])

    def test_compares_shown_output(self) -> None:
        self.assertTrue(steps.agrees((), "anything\n"))
        self.assertTrue(steps.agrees(("id …", "…", "end"), "id 5\na\nb\nend\n"))
        self.assertTrue(steps.agrees(("red",), "\x1b[31mred\x1b[0m\n"))
        self.assertFalse(steps.agrees(("id …",), "id 5\nmore\n"))
        self.assertFalse(steps.agrees(("a.c",), "abc\n"))


class Rewriting(unittest.TestCase):
    def rewritten(self, *texts: str) -> str:
        test = page(*texts)
        other = page("# Other", path="reference/errors.md")
        return links.Links([test, other]).rewritten(test)

    def test_links_to_pages_and_names_other_files(self) -> None:
        self.assertEqual(self.rewritten("[e](../reference/errors.md#a)"), "[e](../reference/errors.md#a)\n")
        self.assertEqual(self.rewritten("[the lock](../../../../Cargo.lock)"), "the lock (`Cargo.lock`)\n")
        self.assertEqual(self.rewritten("[`Cargo.lock`](../../../../Cargo.lock)"), "`Cargo.lock`\n")

    def test_leaves_code_alone(self) -> None:
        self.assertEqual(self.rewritten("`[a](none)`", "```text", "[a](none)", "```").count("[a](none)"), 2)

    def test_rejects_links_to_missing_files_and_headings(self) -> None:
        with self.assertRaisesRegex(pages.Wrong, "no none.md"):
            self.rewritten("[a](none.md)")
        with self.assertRaisesRegex(pages.Wrong, "no heading #none"):
            self.rewritten("[a](../../../../CONTRIBUTING.md#none)")


class Checks(unittest.TestCase):
    def test_finds_broken_links_and_anchors(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            file = Path(name).resolve() / "a.html"
            file.write_text('<a id="here" href="b.html">b</a><img src="https://example.com/a.png">')
            html = check.Html(file.read_text())
            self.assertEqual(html.loads, {"https://example.com/a.png"})
            self.assertEqual(check.broken("b.html", file, {file: html}), "there is no b.html")
            self.assertEqual(check.broken("#there", file, {file: html}), "there is no anchor #there")
            self.assertIsNone(check.broken("a.html#here", file, {file: html}))

    def test_rejects_entries_of_a_table_in_an_unknown_form(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            file = Path(name) / "a.rs"
            table = 'const A: &[(&str, &str)] = &[\n    ("x", "long \\\n     text [1]"),\n%s];\n'
            file.write_text(table % "")
            self.assertEqual(rust.table(file, "A"), [("x", "long text [1]")])
            file.write_text(table % "    (NAME, TEXT),\n")
            with self.assertRaises(SystemExit):
                rust.table(file, "A")


if __name__ == "__main__":
    unittest.main()
