"""The reader accepts, refuses and finds what the readers of the transports do."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mcp_types import (
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    jsonrpc_message_adapter,
)

from plait.client.protocol.exchange import is_response, parse_json
from plait.client.protocol.framing import frames
from plait.client.protocol.reading import Message, coerced_id, read
from plait.client.transports.streams import frames_of

_DEEP = b'{"jsonrpc":"2.0","id":1,"result":{"a":%b1%b}}'
ODD = [
    b'{"jsonrpc":"2.0","id":1,"result":{"a":NaN,"b":[Infinity,-Infinity,1e999,-0.0]}}',
    b'{"jsonrpc":"2.0","id":1,"result":{"n":%b}}' % (b"9" * 4300),
    b'{"jsonrpc":"2.0","id":1,"result":{"n":%b}}' % (b"9" * 4301),
    b'{"jsonrpc":"2.0","id":%b,"result":{}}' % (b"9" * 30),
    b'{"jsonrpc":"2.0","id":"%b","result":{}}' % (b"9" * 30),
    b'{"jsonrpc":"2.0","id":"0012","result":{}}',
    b'{"jsonrpc":"2.0","id":"","result":{}}',
    b'{"jsonrpc":"2.0","id":-1,"result":{}}',
    b'{"jsonrpc":"2.0","id":1,"result":{"a":"\\ud83d"}}',
    b'{"jsonrpc":"2.0","id":1,"result":{"a":"\\ude00\\ud83d","\\uD83D\\uDE00":1}}',
    b'{"jsonrpc":"2.0","id":1,"result":{"a":"\xff"}}',
    b'{"jsonrpc":"2.0","id":1,"result":{"\xc3":"a"}}',
    b'{"jsonrpc":"2.0","id":1,"result":{"\xed\xa0\x80":"a"}}',
    b'{"jsonrpc":"2.0","id":1,"result":{"a":"\n"}}',
    b'{"jsonrpc":"2.0","id":1,"result":{"a":"\\x"}}',
    b'{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":2},"id":2}',
    b'{"jsonrpc":"1.0","id":1,"result":{},"jsonrpc":"2.0"}',
    b'{"jsonrpc":"2.0","id":1,"result":{},"jsonrpc":"1.0"}',
    b'{"jsonrpc":"2.0","id":1,"result":{},"result":3}',
    b'{"jsonrpc":"2.0","id":1,"result":{"a":1},}',
    b'{"jsonrpc":"2.0","id":1,"result":{"a":01}}',
    b'[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","method":"a"}]',
    b'[{"jsonrpc":"2.0","id":1,"result":{}},7]',
    b"[%b]" % b",".join([b'{"jsonrpc":"2.0","method":"a"}'] * 1001),
    _DEEP % (b"[" * 50, b"]" * 50),
    _DEEP % (b"[" * 198, b"]" * 198),
    _DEEP % (b"[" * 300, b"]" * 300),
    _DEEP % (b'{"a":' * 2000, b"}" * 2000),
    b'{"jsonrpc":"2.0","method":"a","params":{"a":%b}}' % (b"[" * 300 + b"]" * 300),
    b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"a","data":%b}}'
    % (b"[" * 300 + b"]" * 300),
]

IDS = st.sampled_from([1, "1", "a", "", 0, -1, 1.0, 1.5, True, None, [], {}, 10**20, "9" * 25])
OTHERS = st.sampled_from([None, 1, "a", [], {}, {"a": 1}, {"a": {"b": [None, "ü"]}}, True])
ERRORS = st.one_of(
    OTHERS,
    st.fixed_dictionaries(
        {},
        optional={
            "code": st.sampled_from([1, -32000, "5", "-5", "x", 5.0, 5.5, None, True]),
            "message": st.sampled_from(["a", "", None, 1]),
            "data": OTHERS,
            "more": OTHERS,
        },
    ),
)
OBJECTS = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.sampled_from(["2.0", "2.0", "2.0", "2.0", "1.0", 2.0, None]),
        "id": IDS,
        "method": st.sampled_from(["a", "ping", "", None, 1, {}]),
        "params": OTHERS,
        "result": OTHERS,
        "error": ERRORS,
        "more": OTHERS,
    },
)


def _facts(message: Message) -> dict[str, Any]:
    facts: dict[str, Any] = {"kind": message.kind, "id": message.id}
    match message.kind:
        case "response":
            return facts | {"result": message.decoded_result()}
        case "error":
            assert message.error is not None
            return facts | {
                "error": [message.error.code, message.error.message, message.error.data]
            }
        case _:
            return facts | {"method": message.method, "params": message.params}


def _facts_of_before(message: JSONRPCMessage) -> dict[str, Any]:
    match message:
        case JSONRPCRequest():
            facts = {"kind": "request", "id": message.id, "method": message.method}
            return facts | {"params": message.params}
        case JSONRPCNotification():
            facts = {"kind": "notification", "id": None, "method": message.method}
            return facts | {"params": message.params}
        case JSONRPCError():
            error = message.error
            facts = {"kind": "error", "id": coerced_id(message.id)}
            return facts | {"error": [error.code, error.message, error.data]}
        case _:
            return {"kind": "response", "id": coerced_id(message.id), "result": message.result}


def _read_facts(body: bytes) -> object:
    try:
        return _facts(read(body))
    except ValueError:
        return "refused"


def _read_facts_before(body: bytes) -> object:
    try:
        return _facts_of_before(jsonrpc_message_adapter.validate_json(body, by_name=False))
    except ValueError:
        return "refused"


def _has_null_result(value: dict[str, Any]) -> bool:
    return "result" in value and value["result"] is None


@settings(deadline=None, max_examples=400)
@given(OBJECTS.filter(lambda value: not _has_null_result(value)), st.booleans())
@example({"jsonrpc": "2.0", "id": 1, "method": "a", "result": {}}, False)
@example({"jsonrpc": "2.0", "id": 1, "method": "a", "error": {"code": 1, "message": "a"}}, True)
@example({"jsonrpc": "2.0", "id": True, "method": "a"}, False)
@example({"jsonrpc": "2.0", "id": None, "error": {"code": "5", "message": "a"}}, True)
def test_objects_are_messages_as_for_the_models_of_the_sdk(
    value: dict[str, Any], is_long: bool
) -> None:
    body = json.dumps(value | ({"padding": "x" * 5000} if is_long else {})).encode()

    assert _read_facts(body) == _read_facts_before(body)


@settings(deadline=None, max_examples=300)
@given(OBJECTS)
def test_a_direct_answer_is_one_as_before(value: dict[str, Any]) -> None:
    body = json.dumps(value).encode()
    before = parse_json(body)
    if not is_response(before) or coerced_id(before.get("id")) is None:
        return  # the transports look at it more closely
    if before.get("id") is True:
        return  # was taken for the number 1

    message = read(body)

    assert message.id == coerced_id(before["id"])
    assert message.kind in {"response", "error"}
    if message.kind == "response":
        assert message.decoded_result() == before["result"]


def _frames(line: bytes, encoding: str, errors: str) -> object:
    framed, found = frames(line, encoding=encoding, errors=errors), []
    for message in framed.messages:
        try:
            found.append(_facts(message))
        except ValueError:
            return [[], True]  # its request fails, as that of a misread line does
    return [found, framed.noise]


def _frames_before(line: bytes, encoding: str, errors: str) -> object:
    framed = frames_of(line, encoding=encoding, errors=errors)
    return [[_facts_of_before(message) for message in framed.messages], framed.noise]


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-16"])
@pytest.mark.parametrize("line", ODD, ids=range(len(ODD)))
def test_messages_are_found_in_odd_lines_as_before(line: bytes, encoding: str) -> None:
    for whole in (
        line,
        b"banner " + line,
        line + line,
        line[:-1],
        b"\xef\xbb\xbf" + line + b"\r\n",
    ):
        now = _frames(whole, encoding, "replace")

        assert repr(now) == repr(_frames_before(whole, encoding, "replace"))


FRAGMENTS = st.one_of(
    st.binary(max_size=30),
    st.text(max_size=20).map(str.encode),
    st.sampled_from([b"{", b"[{", b"}", b"\0", b"[", b",", b"]", b'"', *ODD[:23]]),
    OBJECTS.map(lambda value: json.dumps(value).encode()),
)


@settings(deadline=None, max_examples=300)
@given(
    st.lists(FRAGMENTS, max_size=6).map(b"".join),
    st.sampled_from(["utf-8", "latin-1", "utf-16", "cp1252"]),
    st.sampled_from(["strict", "replace"]),
)
def test_messages_are_found_in_any_line_as_before(line: bytes, encoding: str, errors: str) -> None:
    assert repr(_frames(line, encoding, errors)) == repr(_frames_before(line, encoding, errors))
