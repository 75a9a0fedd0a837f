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
    AuthRequiredError,
    CallTimeoutError,
    ConfigError,
    ConnectError,
    MCPClientError,
    OutcomeUnknownError,
    PlaitError,
    Problem,
    RateLimitedError,
    ServerError,
    ToolFailedError,
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


@pytest.mark.parametrize("failure", [ConnectError, AuthRequiredError, RateLimitedError])
def test_every_failure_to_connect_is_an_error_of_the_client(failure: type[PlaitError]) -> None:
    assert issubclass(failure, MCPClientError)
    assert not issubclass(ToolFailedError, MCPClientError)


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


def test_each_class_says_what_may_be_done_after_it() -> None:
    advice = {error.__name__: (error.kind, error.retryable, error.retry) for error in CLASSES}

    assert advice == snapshot(
        {
            "PlaitError": ("unknown", False, "never"),
            "ConfigError": ("config", False, "never"),
            "BranchNotFoundError": ("domain", False, "never"),
            "CheckpointNotFoundError": ("domain", False, "never"),
            "GraphNotFoundError": ("domain", False, "never"),
            "UnknownServerError": ("config", False, "never"),
            "NodeNotFoundError": ("domain", False, "never"),
            "BlockingCallError": ("config", False, "never"),
            "ClientClosedError": ("config", False, "never"),
            "MCPClientError": ("transport", False, "never"),
            "SessionNotFoundError": ("domain", False, "never"),
            "ThoughtNotFoundError": ("domain", False, "never"),
            "UnknownIdError": ("domain", False, "never"),
            "TransportError": ("transport", True, "if_idempotent"),
            "ConnectError": ("transport", True, "always"),
            "UntrustedConfigError": ("config", False, "never"),
            "NotRecordedError": ("config", False, "never"),
            "ConnectTimeoutError": ("transport", True, "always"),
            "EndpointNotFoundError": ("transport", True, "never"),
            "McpVersionError": ("transport", True, "never"),
            "CircuitOpenError": ("transport", True, "always"),
            "ConnectionLostError": ("transport", True, "always"),
            "SendError": ("transport", True, "always"),
            "ListTimeoutError": ("transport", True, "if_idempotent"),
            "CallTimeoutError": ("transport", True, "if_idempotent"),
            "RunDeadlineError": ("transport", False, "never"),
            "ProtocolError": ("protocol", True, "never"),
            "DomainError": ("domain", False, "never"),
            "ToolFailedError": ("domain", False, "never"),
            "ToolNotFoundError": ("domain", False, "never"),
            "ResourceNotFoundError": ("domain", False, "never"),
            "InvalidArgumentsError": ("domain", False, "never"),
            "InputNeededError": ("domain", False, "never"),
            "InputRefusedError": ("domain", False, "never"),
            "ResultExpiredError": ("domain", False, "never"),
            "BudgetExceededError": ("domain", False, "never"),
            "PermissionDeniedError": ("domain", False, "never"),
            "HttpError": ("transport", False, "never"),
            "AuthRequiredError": ("auth", False, "never"),
            "ForbiddenError": ("auth", False, "never"),
            "RateLimitedError": ("transport", True, "always"),
            "ServerError": ("transport", True, "if_idempotent"),
            "OutcomeUnknownError": ("transport", False, "if_idempotent"),
            "EngineUnavailableError": ("config", False, "never"),
            "AgentError": ("domain", False, "never"),
            "AgentExecutionError": ("domain", False, "never"),
            "AgentResponseError": ("domain", False, "never"),
            "AgentTimeoutError": ("domain", False, "never"),
            "ManualEngineError": ("config", False, "never"),
            "ManualTraceError": ("config", False, "never"),
            "ManualTraceNotFoundError": ("config", False, "never"),
            "AgentServerConnectError": ("transport", False, "never"),
            "AgentServerConfigError": ("config", False, "never"),
            "AgentServerError": ("transport", False, "never"),
            "AgentServerTimeoutError": ("transport", False, "never"),
            "ParseError": ("domain", False, "never"),
            "EngineError": ("domain", False, "never"),
            "TraceFormatError": ("config", False, "never"),
            "ReasoningError": ("domain", False, "never"),
            "BackendError": ("transport", False, "never"),
            "ChatHistoryError": ("transport", False, "always"),
            "DiscoveryError": ("transport", False, "always"),
            "GatewayError": ("unknown", False, "never"),
            "ManifestError": ("config", False, "never"),
            "OutboxError": ("config", False, "never"),
            "TokenError": ("auth", False, "never"),
            "RefusedError": ("domain", False, "never"),
            "ReplyError": ("domain", False, "never"),
            "HostHasNoModelError": ("domain", False, "never"),
            "ContentError": ("unknown", False, "never"),
        }
    )


@pytest.mark.parametrize("error", CLASSES)
def test_the_text_of_an_error_is_its_message(error: type[PlaitError]) -> None:
    made = error("files: it broke")

    assert str(made) == made.message == "files: it broke"
    assert made.args == ("files: it broke",)


@pytest.mark.parametrize("error", CLASSES)
def test_a_copied_error_keeps_every_fact(error: type[PlaitError]) -> None:
    original = _full(error)
    original.add_note("tried twice")

    twin = copy.copy(original)

    assert type(twin) is error
    assert str(twin) == str(original)
    assert vars(twin) == vars(original)


@pytest.mark.parametrize("error", CLASSES)
def test_a_pickled_error_comes_back_whole(error: type[PlaitError]) -> None:
    original = _full(error)

    back = pickle.loads(pickle.dumps(original))

    assert type(back) is error
    assert str(back) == str(original)
    assert vars(back) == vars(original)


@pytest.mark.parametrize("error", CLASSES)
def test_a_described_error_is_plain_data(error: type[PlaitError]) -> None:
    described = _full(error).to_dict()

    assert json.loads(json.dumps(described)) == described
    assert described["error"] == error.__name__
    assert described["type"] == f"{error.kind}_error"


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


def test_a_description_leaves_out_what_is_not_known() -> None:
    assert CallTimeoutError("slow").to_dict() == snapshot(
        {
            "type": "transport_error",
            "error": "CallTimeoutError",
            "message": "slow",
            "retryable": True,
            "retry": "if_idempotent",
        }
    )


def test_a_fact_that_is_zero_is_known() -> None:
    assert RateLimitedError("slow down", retry_after=0.0).to_dict()["retry_after"] == 0.0


def test_advice_given_to_one_error_does_not_change_its_class() -> None:
    one = OutcomeUnknownError("lost", retry="never", retryable=True)
    another = OutcomeUnknownError("lost")

    assert (one.retry, one.retryable) == ("never", True)
    assert (another.retry, another.retryable) == ("if_idempotent", False)


def test_one_problem_is_the_whole_message() -> None:
    problem = Problem(
        file="mcp.json",
        path="mcpServers.files.comand",
        code="unknown_key",
        message="unknown key",
        suggestion="did you mean 'command'?",
    )

    error = ConfigError.from_problems(iter([problem]))

    assert error.problems == (problem,)
    assert str(error) == snapshot(
        "mcp.json: mcpServers.files.comand: unknown key (did you mean 'command'?)"
    )


def test_several_problems_are_listed_a_line_each() -> None:
    problems = [
        Problem(file=None, path="files", code="a", message="one"),
        Problem(file=None, path="", code="b", message="two"),
    ]

    error = ConfigError.from_problems(problems)

    assert error.problems == tuple(problems)
    assert str(error) == snapshot(
        """\
2 problems in the configuration:
  - files: one
  - two\
"""
    )
