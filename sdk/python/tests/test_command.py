"""The output of commands: text, and the limit of what is collected."""

from __future__ import annotations

import base64
import json

import pytest

from workspace_sdk import CreateSandboxParams
from workspace_sdk._command import Characters, StreamEvent
from workspace_sdk._output import MAX_COLLECTED, Output


def event(kind: str, data: bytes = b"", **fields: object) -> StreamEvent:
    """Returns an event as the server sends it: output that is not UTF-8 in base64."""
    body: dict[str, object] = {"type": kind, "commandId": "c", "timestamp": 0, **fields}
    try:
        body["data"] = data.decode()
    except UnicodeDecodeError:
        body |= {"data": base64.b64encode(data).decode(), "encoding": "base64"}
    return StreamEvent.parse(json.dumps(body).encode())


def through(*events: StreamEvent) -> list[StreamEvent]:
    characters = Characters()
    return [each for one in events for each in characters.add(one)]


@pytest.mark.parametrize("text", ["aü€😀z", "😀😀", "x" * 20 + "€"])
def test_characters_stay_whole_wherever_the_output_is_cut(text: str) -> None:
    raw = text.encode()
    for first in range(len(raw) + 1):
        for second in range(first, len(raw) + 1):
            pieces = (raw[:first], raw[first:second], raw[second:])
            seen = through(*(event("stdout", piece) for piece in pieces), event("exit", exitCode=0))
            assert "".join(each.data for each in seen) == text
            assert b"".join(each.raw for each in seen) == raw


def test_streams_do_not_mix_their_halves() -> None:
    halves = event("stdout", b"\xc3"), event("stderr", b"\xe2\x82"), event("stdout", b"\xbc"), event("stderr", b"\xac")
    assert [each.data for each in through(*halves)] == ["", "", "ü", "€"]


@pytest.mark.parametrize("kind", ["gap", "exit"])
def test_a_half_without_a_rest_is_replaced(kind: str) -> None:
    seen = through(event("stdout", b"a\xc3"), event(kind, exitCode=0))
    assert [(each.type, each.data) for each in seen] == [("stdout", "a"), ("stdout", "\ufffd"), (kind, "")]
    assert [each.raw for each in seen] == [b"a\xc3", b"", b""]


def collected(output: Output, *events: StreamEvent) -> tuple[int, int, bool]:
    for each in (*events, event("exit", exitCode=0)):
        output.add(each)
    result = output.result()
    return len(result.stdout), len(result.stderr), result.truncated


def test_a_limit_is_one_for_both_streams() -> None:
    assert collected(Output("c", 5), event("stdout", b"abc"), event("stderr", b"abc")) == (3, 2, True)
    assert collected(Output("c", 6), event("stdout", b"abc"), event("stderr", b"abc")) == (3, 3, False)


def test_a_result_has_a_limit_also_without_one_of_the_caller() -> None:
    full = b"x" * MAX_COLLECTED
    assert collected(Output("c"), event("stdout", full)) == (MAX_COLLECTED, 0, False)
    assert collected(Output("c"), event("stdout", full), event("stderr", b"x")) == (MAX_COLLECTED, 0, True)


@pytest.mark.parametrize("other", ["existing", "fork", "directory"])
def test_a_workspace_of_a_project_has_no_second_beginning(other: str) -> None:
    with pytest.raises(ValueError, match=other):
        CreateSandboxParams("base", project="p", **{other: "x"}).body()
