"""Every error ends in its exit code."""

import inspect

import pytest

from plait import errors
from plait.cli.exits import Exit, exit_code_for

CODES = {
    "CONFIG": """
        AgentServerConfig Config EngineUnavailable Manifest ManualEngine ManualTrace
        ManualTraceNotFound NotRecorded Outbox PermissionDenied UnknownServer
    """,
    "AGENT_FAILED": """
        Agent AgentExecution AgentResponse Engine Parse
    """,
    "TIMEOUT": """
        AgentServerTimeout AgentTimeout CallTimeout ListTimeout RunDeadline
    """,
    "AUTH": """
        AuthRequired Forbidden Token
    """,
    "UNREACHABLE": """
        AgentServerConnect AgentServer Backend ChatHistory CircuitOpen Connect
        ConnectTimeout ConnectionLost Discovery EndpointNotFound Gateway Http MCPClient
        McpVersion RateLimited Send Server Transport
    """,
    "USAGE": """
        BranchNotFound CheckpointNotFound GraphNotFound InvalidArguments NodeNotFound
        Refused SessionNotFound ThoughtNotFound TraceFormat UnknownId
    """,
    "INTERNAL": """
        BlockingCall ClientClosed Plait
    """,
    "PROTOCOL": """
        BudgetExceeded Content Domain HostHasNoModel InputNeeded InputRefused Protocol
        Reasoning Reply ResourceNotFound ResultExpired ToolNotFound
    """,
    "OUTCOME_UNKNOWN": """
        OutcomeUnknown
    """,
    "TOOL_FAILED": """
        ToolFailed
    """,
    "UNTRUSTED": """
        UntrustedConfig
    """,
}
"""The errors of each code, without the word Error at their end."""


def test_every_error_of_the_package_has_its_exit_code() -> None:
    found: dict[str, set[str]] = {}
    for name, kind in inspect.getmembers(errors, inspect.isclass):
        if issubclass(kind, errors.PlaitError) and name == kind.__name__:
            code = exit_code_for(kind("it broke")).name
            found.setdefault(code, set()).add(name.removesuffix("Error"))

    assert found == {code: set(names.split()) for code, names in CODES.items()}


@pytest.mark.parametrize("code", list(Exit))
def test_every_exit_code_says_what_it_means(code: Exit) -> None:
    assert code.meaning.endswith(".")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KeyboardInterrupt(), 130),
        (PermissionError(13, "Permission denied", "out.png"), Exit.USAGE),
        (RuntimeError("bug"), Exit.INTERNAL),
    ],
    ids=["as a shell expects", "a file that cannot be written", "a defect"],
)
def test_other_errors_have_their_exit_code_too(error: BaseException, code: int) -> None:
    assert exit_code_for(error) == code
