"""The tree of errors: drawn as it is, and safe to copy, to pickle and to describe."""

from __future__ import annotations

import builtins
import copy
import json
import pickle
import re
from typing import Any

import pytest
from inline_snapshot import snapshot

import plait.errors
from plait.errors import (
    ConfigError,
    OutcomeUnknownError,
    PlaitError,
    Problem,
    RateLimitedError,
    ServerError,
)

_DRAWN_LINE = re.compile(r"^(?P<indent>(?:│   |    )*)(?P<branch>├── |└── )?(?P<name>[A-Z]\w+)")

CLASSES: list[type[PlaitError]] = list(
    dict.fromkeys(
        value
        for value in vars(plait.errors).values()
        if isinstance(value, type) and issubclass(value, PlaitError)
    )
)


def _drawn_tree() -> dict[str, str | None]:
    drawing = (plait.errors.__doc__ or "").partition("```text\n")[2].partition("```")[0]
    parents: dict[str, str | None] = {}
    path: list[str] = []
    for line in drawing.splitlines():
        found = _DRAWN_LINE.match(line)
        assert found is not None, line
        depth = len(found["indent"]) // 4 + (1 if found["branch"] else 0)
        path[depth:] = [found["name"]]
        parents[found["name"]] = path[depth - 1] if depth else None
    return parents


def _real_parent(error: type[PlaitError]) -> str | None:
    bases = [base for base in error.__bases__ if issubclass(base, PlaitError)]
    return bases[0].__name__ if bases else None


def _full(error: type[PlaitError], **more: Any) -> PlaitError:
    if issubclass(error, ConfigError):
        problem = Problem(file="mcp.json", path="a.b", code="unknown_key", message="no")
        return error("files: no", problems=[problem], server="files")
    return error(
        "files/read: no",
        server="files",
        tool="read",
        code=-32000,
        status=503,
        retry_after=1.5,
        challenge='Bearer realm="x"',
        retry="always",
        retryable=True,
        **more,
    )


def test_the_tree_in_the_docstring_is_the_real_one() -> None:
    assert _drawn_tree() == {error.__name__: _real_parent(error) for error in CLASSES}


def test_the_docstring_names_every_alias() -> None:
    aliases = [
        name
        for name, value in vars(plait.errors).items()
        if isinstance(value, type) and issubclass(value, PlaitError) and value.__name__ != name
    ]

    assert aliases == []


def test_some_errors_are_also_the_builtin_of_their_kind() -> None:
    also = {
        error.__name__: base.__name__
        for error in CLASSES
        for base in error.__bases__
        if base.__name__ in vars(builtins) and base is not Exception
    }

    assert also == snapshot(
        {
            "ConfigError": "ValueError",
            "BlockingCallError": "RuntimeError",
            "ClientClosedError": "RuntimeError",
            "ConnectTimeoutError": "TimeoutError",
            "ListTimeoutError": "TimeoutError",
            "CallTimeoutError": "TimeoutError",
            "RunDeadlineError": "TimeoutError",
            "ManifestError": "ValueError",
            "AgentTimeoutError": "TimeoutError",
            "AgentServerTimeoutError": "TimeoutError",
            "AgentServerConfigError": "ValueError",
            "TraceFormatError": "ValueError",
        }
    )


ADVICE = {
    "auth, never": """
        AuthRequiredError ForbiddenError TokenError
    """,
    "config, never": """
        AgentServerConfigError BlockingCallError ClientClosedError ConfigError
        EngineUnavailableError ManifestError ManualEngineError ManualTraceError
        ManualTraceNotFoundError NotRecordedError OutboxError TraceFormatError UnknownServerError
        UntrustedConfigError
    """,
    "domain, never": """
        AgentError AgentExecutionError AgentResponseError AgentTimeoutError BranchNotFoundError
        BudgetExceededError CheckpointNotFoundError DomainError EngineError GraphNotFoundError
        HostHasNoModelError InputNeededError InputRefusedError InvalidArgumentsError
        NodeNotFoundError ParseError PermissionDeniedError ReasoningError RefusedError ReplyError
        ResourceNotFoundError ResultExpiredError SessionNotFoundError ThoughtNotFoundError
        ToolFailedError ToolNotFoundError UnknownIdError
    """,
    "protocol, never, elsewhere too": """
        ProtocolError
    """,
    "transport, always": """
        ChatHistoryError DiscoveryError
    """,
    "transport, if_idempotent": """
        OutcomeUnknownError
    """,
    "transport, never": """
        AgentServerConnectError AgentServerError AgentServerTimeoutError BackendError HttpError
        MCPClientError RunDeadlineError
    """,
    "transport, always, elsewhere too": """
        CircuitOpenError ConnectError ConnectTimeoutError ConnectionLostError RateLimitedError
        SendError
    """,
    "transport, if_idempotent, elsewhere too": """
        CallTimeoutError ListTimeoutError ServerError TransportError
    """,
    "transport, never, elsewhere too": """
        EndpointNotFoundError McpVersionError
    """,
    "unknown, never": """
        ContentError GatewayError PlaitError
    """,
}
"""By kind, what may be done on the same server, and whether another one may be tried."""


def test_each_class_says_what_may_be_done_after_it() -> None:
    advice: dict[str, str] = {}
    for error in CLASSES:
        elsewhere = ", elsewhere too" if error.retryable else ""
        advice[error.__name__] = f"{error.kind}, {error.retry}{elsewhere}"

    assert advice == {name: how for how, names in ADVICE.items() for name in names.split()}


@pytest.mark.parametrize("error", CLASSES)
def test_an_error_keeps_every_fact_where_it_is_copied_pickled_or_described(
    error: type[PlaitError],
) -> None:
    plain, original = error("files: it broke"), _full(error)
    original.add_note("tried twice")

    assert (str(plain), plain.message, plain.args) == (
        *["files: it broke"] * 2,
        ("files: it broke",),
    )
    for twin in (copy.copy(original), pickle.loads(pickle.dumps(original))):
        assert type(twin) is error
        assert str(twin) == str(original)
        assert vars(twin) == vars(original)
    described = original.to_dict()
    assert json.loads(json.dumps(described)) == described
    assert (described["error"], described["type"]) == (error.__name__, f"{error.kind}_error")


def test_a_description_holds_every_known_fact() -> None:
    assert _full(ServerError).to_dict() == snapshot(
        {
            "type": "transport_error",
            "error": "ServerError",
            "message": "files/read: no",
            "client": "files",
            "tool_name": "read",
            "code": -32000,
            "status": 503,
            "retry_after": 1.5,
            "challenge": 'Bearer realm="x"',
            "retryable": True,
            "retry": "always",
        }
    )


def test_a_description_leaves_out_what_is_not_known_and_zero_is_known() -> None:
    assert RateLimitedError("slow down", retry_after=0.0).to_dict() == {
        "type": "transport_error",
        "error": "RateLimitedError",
        "message": "slow down",
        "retry_after": 0.0,
        "retryable": True,
        "retry": "always",
    }


def test_advice_given_to_one_error_does_not_change_its_class() -> None:
    one = OutcomeUnknownError("lost", retry="never", retryable=True)
    another = OutcomeUnknownError("lost")

    assert (one.retry, one.retryable) == ("never", True)
    assert (another.retry, another.retryable) == ("if_idempotent", False)


def test_one_problem_is_the_whole_message_and_several_are_a_line_each() -> None:
    one = Problem(
        file="mcp.json",
        path="files.comand",
        code="unknown_key",
        message="unknown key",
        suggestion="did you mean 'command'?",
    )
    two = [Problem(file=None, path=path, code="a", message=path) for path in ("files", "")]

    error, errors = ConfigError.from_problems(iter([one])), ConfigError.from_problems(two)

    assert (error.problems, errors.problems) == ((one,), tuple(two))
    assert str(error) == "mcp.json: files.comand: unknown key (did you mean 'command'?)"
    assert str(errors) == "2 problems in the configuration:\n  - files: files\n  - "
