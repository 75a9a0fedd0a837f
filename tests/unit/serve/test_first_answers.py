"""Answers before the server is imported: which are given, and what is left to the server."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from plait.serve.first_answers import (
    MAX_LINE_BYTES,
    Conversation,
    answers_folder,
    answers_path,
    answers_text,
    declaration,
    fingerprint,
    read_answers,
)

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {"roots": {}}}
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
META = {
    VERSION_KEY: "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"roots": {}},
}
OTHER_META = {**META, "io.modelcontextprotocol/clientCapabilities": {}}
LISTED = b'{"tools":[{"name":"a__b"}]}'
HANDSHAKE = {"initialize": b'{"serverInfo":{}}', "tools/list": LISTED, "ping": b"{}"}
MODERN = {"server/discover": b'{"supportedVersions":[]}', "tools/list": LISTED}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A file that decides about the answers."""
    path = tmp_path / "mcp.json"
    path.write_text('{"mcpServers": {"a": {"command": "${PROGRAM}"}}}')
    return path


@pytest.fixture
def folder(tmp_path: Path, config: Path) -> Path:
    """Answers for a client of each era."""
    made = tmp_path / "answers"
    made.mkdir()
    files = [str(config), str(tmp_path / "missing")]
    for method, params, answers in (
        ("initialize", HELLO, HANDSHAKE),
        ("server/discover", {"_meta": META}, MODERN),
    ):
        path = answers_path(made, str(declaration(method, params)))
        path.write_text(answers_text(files, fingerprint(files), answers))
        path.chmod(0o600)
    return made


def request(number: object, method: str, params: Mapping[str, Any] | None = None) -> bytes:
    row: dict[str, Any] = {"jsonrpc": "2.0", "id": number, "method": method}
    if params is not None:
        row["params"] = params
    return json.dumps(row).encode() + b"\n"


def note(method: str) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": method}).encode() + b"\n"


def ids_in(sent: bytes | bytearray) -> list[object]:
    return [json.loads(line)["id"] for line in sent.splitlines()]


HELLO_1 = request(1, "initialize", {**HELLO, "clientInfo": {"name": "any", "version": "9"}})


def test_a_client_of_the_handshake_era_is_answered(folder: Path) -> None:
    begun = Conversation(folder)

    goes_on = begun.take(HELLO_1 + note("notifications/initialized") + request("x", "tools/list"))
    goes_on &= begun.take(request(2, "ping", {}) + request(3, "tools/list", {"_meta": {"a": 1}}))

    first, second = begun.unsent.splitlines()[:2]
    assert goes_on
    assert ids_in(begun.unsent) == [1, "x", 2, 3]
    assert json.loads(first) == {"jsonrpc": "2.0", "id": 1, "result": {"serverInfo": {}}}
    assert second == b'{"jsonrpc":"2.0","id":"x","result":' + LISTED + b"}"
    assert begun.unread == note("notifications/initialized")
    assert begun.opening is not None
    assert begun.opening[0] == "initialize"
    assert begun.opening[1]["clientInfo"] == {"name": "any", "version": "9"}
    assert begun.sent == {**HANDSHAKE}


def test_a_client_of_the_modern_era_is_answered(folder: Path) -> None:
    begun = Conversation(folder)
    params = {"_meta": {**META, "progressToken": 7}}

    assert begun.take(request(1, "tools/list", params) + request(2, "server/discover", params))
    assert ids_in(begun.unsent) == [1, 2]
    assert begun.opening == ("tools/list", params)


@pytest.mark.parametrize(
    "line",
    [
        request(2, "tools/call", {"name": "a__b"}),
        request(2, "prompts/list"),
        request(2, "initialize", HELLO),
        request(2, "tools/list", {"cursor": "c"}),
        request(2, "tools/list", {"_meta": 5}),
        request(True, "tools/list"),
        request(1.5, "tools/list"),
        b'{"id":2,"method":"tools/list"}\n',
        b'{"jsonrpc":"2.0","id":2,"method":"tools/list","params":[1]}\n',
        b'{"jsonrpc":"2.0","id":2,"result":{}}\n',
        b'[{"jsonrpc":"2.0","id":2,"method":"tools/list"}]\n',
        b"\xff\n",
        b"noise\n",
        b"[" * 100_000 + b"\n",
    ],
)
def test_what_is_not_known_is_left_to_the_server_with_all_that_follows(
    folder: Path, line: bytes
) -> None:
    begun = Conversation(folder)
    rest = request(3, "tools/list") + b'{"jsonrpc'

    assert not begun.take(HELLO_1 + note("n") + line + rest)
    assert ids_in(begun.unsent) == [1]
    assert begun.unread == note("n") + line + rest


@pytest.mark.parametrize(
    "first",
    [
        request(1, "tools/list"),
        request(1, "ping"),
        request(1, "initialize", {**HELLO, "capabilities": {"roots": {}, "sampling": {}}}),
        request(1, "initialize", {**HELLO, "protocolVersion": "2025-06-18"}),
        request(1, "initialize", {**HELLO, "_meta": META}),
        request(1, "initialize", {"protocolVersion": "2026-07-28", "capabilities": {"roots": {}}}),
        request(1, "server/discover"),
        request(1, "tools/list", {"_meta": {**META, VERSION_KEY: "2025-11-25"}}),
        request(1, "server/discover", {"_meta": OTHER_META}),
    ],
)
def test_nothing_is_answered_before_it_is_known_what_the_client_can_do(
    folder: Path, first: bytes
) -> None:
    begun = Conversation(folder)

    assert not begun.take(first + HELLO_1)
    assert not begun.unsent
    assert begun.opening is None
    assert begun.unread == first + HELLO_1


def test_a_client_of_the_modern_era_that_can_do_something_else_meanwhile_is_left(
    folder: Path,
) -> None:
    begun = Conversation(folder)

    assert begun.take(request(1, "tools/list", {"_meta": META}))
    assert not begun.take(request(2, "tools/list", {"_meta": OTHER_META}))
    assert not Conversation(folder).take(
        request(1, "tools/list", {"_meta": META}) + request(2, "tools/list")
    )


def test_a_request_may_arrive_in_pieces(folder: Path) -> None:
    begun = Conversation(folder)

    for byte in HELLO_1:
        assert begun.take(bytes([byte]))
    assert ids_in(begun.unsent) == [1]
    assert begun.take(b" " * (MAX_LINE_BYTES - 1))
    assert not begun.take(b" ")


# What makes stored answers invalid


def change(path: Path, content: bytes) -> None:
    path.write_bytes(content)


CHANGES: dict[str, Callable[[Path, Path, Path], object]] = {
    "another configuration": lambda config, *_: change(config, config.read_bytes() + b" "),
    "no configuration": lambda config, *_: config.unlink(),
    "another owner may write it": lambda config, *_: config.chmod(0o666),
    "a file that was missing": lambda config, *_: change(config.with_name("missing"), b""),
    "a damaged byte": lambda _, stored, __: change(
        stored, stored.read_bytes().replace(b"a__b", b"a__c")
    ),
    "a cut file": lambda _, stored, __: change(stored, stored.read_bytes()[:-3]),
    "an empty file": lambda _, stored, __: change(stored, b""),
    "no object": lambda _, stored, __: change(stored, b"[]\n"),
    "no text": lambda _, stored, __: change(stored, b"\xff\xfe\n"),
    "files that are none": lambda _, stored, __: change(
        stored, b'{"files":[1],"fingerprint":"","digest":"e3b0c442"}\n'
    ),
    "a folder in its place": lambda _, stored, __: (stored.unlink(), stored.mkdir()),
    "answers that others may write": lambda _, stored, __: stored.chmod(0o620),
}


@pytest.mark.parametrize("name", CHANGES)
def test_answers_are_not_given_after(name: str, folder: Path, config: Path) -> None:
    stored = answers_path(folder, str(declaration("initialize", HELLO)))
    before = Conversation(folder)
    before.take(HELLO_1)

    CHANGES[name](config, stored, folder)

    begun = Conversation(folder)
    assert before.unsent
    assert not begun.take(HELLO_1)
    assert not begun.unsent
    assert begun.unread == HELLO_1


def test_answers_are_not_given_after_a_change_of_a_variable_of_the_configuration(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = str(declaration("initialize", HELLO))
    assert read_answers(folder, declared)
    monkeypatch.setenv("ANOTHER", "1")
    assert read_answers(folder, declared)
    monkeypatch.setenv("PROGRAM", "")
    assert not read_answers(folder, declared)


def test_each_command_line_has_answers_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = ["serve", "--config", "/etc/mcp.json"]
    lines = [
        ["serve"],
        named,
        [*named, "--search"],
        [*named, "--only", "a"],
        [*named, "--names", "plain"],
        ["serve", "--config", "mcp.json"],
        [*named, "--config", "mcp.json"],
        [*named, "-qc", "mcp.json"],
    ]
    here = [answers_folder(line) for line in lines]
    monkeypatch.chdir(tmp_path)
    there = [answers_folder(line) for line in lines]
    same_in_every_folder = [one == other for one, other in zip(here, there, strict=True)]

    assert len({*here}) == len(here)
    assert same_in_every_folder == [False, True, True, True, True, False, False, False]


@pytest.mark.parametrize("name", ["PLAIT_TRUST", "PLAIT_CONFIG", "XDG_CONFIG_HOME", "HOME"])
def test_variables_that_decide_about_the_configuration_have_answers_of_their_own(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PLAIT_CACHE_DIR", str(tmp_path))
    before = answers_folder(["serve"])
    monkeypatch.setenv(name, "/elsewhere")

    assert answers_folder(["serve"]) != before


def test_another_version_has_answers_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    before = answers_folder(["serve"])
    monkeypatch.setattr("plait.serve.first_answers.__version__", "0.0.1")

    assert answers_folder(["serve"]) != before


# The two ends


@pytest.fixture
def ends() -> Iterator[tuple[int, int, int, int]]:
    """Two pipes: the server's input and the client's end of it, the same for its output."""
    stdin, client_out = os.pipe()
    client_in, stdout = os.pipe()
    opened = [stdin, client_out, client_in, stdout]
    yield stdin, client_out, client_in, stdout
    for end in opened:
        with suppress(OSError):
            os.close(end)


def test_a_conversation_pauses_with_its_client(
    folder: Path, ends: tuple[int, int, int, int]
) -> None:
    stdin, client_out, client_in, stdout = ends
    os.write(client_out, HELLO_1 + note("n"))
    begun = Conversation(folder)

    begun.hold(stdin, stdout)

    assert ids_in(os.read(client_in, 10_000)) == [1]
    assert begun.unread == note("n")
    assert not begun.is_over
    assert os.get_blocking(stdout)


def test_a_conversation_is_over_when_the_client_has_left_with_its_answers(
    folder: Path, ends: tuple[int, int, int, int]
) -> None:
    stdin, client_out, client_in, stdout = ends
    os.write(client_out, HELLO_1 + note("n"))
    os.close(client_out)
    begun = Conversation(folder)

    begun.hold(stdin, stdout)

    assert ids_in(os.read(client_in, 10_000)) == [1]
    assert begun.is_over


@pytest.mark.parametrize("sent", [b"", HELLO_1 + request(2, "tools/call"), HELLO_1 + b"half"])
def test_a_client_that_has_left_without_its_answers_is_left_to_the_server(
    folder: Path, ends: tuple[int, int, int, int], sent: bytes
) -> None:
    stdin, client_out, _, stdout = ends
    os.write(client_out, sent)
    os.close(client_out)
    begun = Conversation(folder)

    begun.hold(stdin, stdout)

    assert not begun.is_over
    assert begun.unread == sent.removeprefix(HELLO_1)


def test_a_client_that_reads_nothing_is_still_read(
    folder: Path, ends: tuple[int, int, int, int]
) -> None:
    stdin, client_out, client_in, stdout = ends
    begun = Conversation(folder)
    asked = [HELLO_1, *(request(f"{number:0200}", "tools/list") for number in range(500))]

    for some in range(0, len(asked), 100):  # as many as a pipe holds
        os.write(client_out, b"".join(asked[some : some + 100]))
        begun.hold(stdin, stdout)

    os.close(client_out)
    begun.hold(stdin, stdout)

    assert begun.unsent
    assert not begun.unread
    assert not begun.is_over
    assert len(ids_in(os.read(client_in, 1_000_000) + begun.unsent)) == len(asked)


def test_a_conversation_without_a_reader_ends(
    folder: Path, ends: tuple[int, int, int, int]
) -> None:
    stdin, _, client_in, stdout = ends
    os.close(client_in)
    begun = Conversation(folder)

    begun.hold(stdin, stdout)

    assert not begun.is_over
