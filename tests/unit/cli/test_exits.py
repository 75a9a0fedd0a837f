"""Every error ends in its exit code."""

import inspect

import pytest
from inline_snapshot import snapshot

from plait import errors
from plait.cli.exits import Exit, exit_code_for


def test_every_error_of_the_package_has_its_exit_code() -> None:
    classes = [
        found
        for _, found in inspect.getmembers(errors, inspect.isclass)
        if issubclass(found, errors.PlaitError)
    ]

    codes = {found.__name__: exit_code_for(found("it broke")).name for found in classes}

    assert codes == snapshot(
        {
            "EngineUnavailableError": "CONFIG",
            "AgentError": "AGENT_FAILED",
            "AgentExecutionError": "AGENT_FAILED",
            "AgentResponseError": "AGENT_FAILED",
            "AgentTimeoutError": "TIMEOUT",
            "AuthRequiredError": "AUTH",
            "BackendError": "UNREACHABLE",
            "BranchNotFoundError": "USAGE",
            "CheckpointNotFoundError": "USAGE",
            "GraphNotFoundError": "USAGE",
            "NodeNotFoundError": "USAGE",
            "SessionNotFoundError": "USAGE",
            "ThoughtNotFoundError": "USAGE",
            "UnknownIdError": "USAGE",
            "NotRecordedError": "CONFIG",
            "BlockingCallError": "INTERNAL",
            "BudgetExceededError": "PROTOCOL",
            "CallTimeoutError": "TIMEOUT",
            "ChatHistoryError": "UNREACHABLE",
            "CircuitOpenError": "UNREACHABLE",
            "ClientClosedError": "INTERNAL",
            "ConfigError": "CONFIG",
            "ConnectError": "UNREACHABLE",
            "ConnectTimeoutError": "UNREACHABLE",
            "ConnectionLostError": "UNREACHABLE",
            "ContentError": "PROTOCOL",
            "DiscoveryError": "UNREACHABLE",
            "DomainError": "PROTOCOL",
            "EndpointNotFoundError": "UNREACHABLE",
            "McpVersionError": "UNREACHABLE",
            "ForbiddenError": "AUTH",
            "HostHasNoModelError": "PROTOCOL",
            "GatewayError": "UNREACHABLE",
            "HttpError": "UNREACHABLE",
            "InputNeededError": "PROTOCOL",
            "InputRefusedError": "PROTOCOL",
            "InvalidArgumentsError": "USAGE",
            "ListTimeoutError": "TIMEOUT",
            "ManifestError": "CONFIG",
            "OutboxError": "CONFIG",
            "ManualEngineError": "CONFIG",
            "ManualTraceError": "CONFIG",
            "ManualTraceNotFoundError": "CONFIG",
            "AgentServerConnectError": "UNREACHABLE",
            "AgentServerConfigError": "CONFIG",
            "AgentServerError": "UNREACHABLE",
            "AgentServerTimeoutError": "TIMEOUT",
            "OutcomeUnknownError": "OUTCOME_UNKNOWN",
            "ParseError": "AGENT_FAILED",
            "PermissionDeniedError": "CONFIG",
            "PlaitError": "INTERNAL",
            "EngineError": "AGENT_FAILED",
            "MCPClientError": "UNREACHABLE",
            "ProtocolError": "PROTOCOL",
            "RateLimitedError": "UNREACHABLE",
            "ReasoningError": "PROTOCOL",
            "RefusedError": "USAGE",
            "ReplyError": "PROTOCOL",
            "ResourceNotFoundError": "PROTOCOL",
            "ResultExpiredError": "PROTOCOL",
            "RunDeadlineError": "TIMEOUT",
            "SendError": "UNREACHABLE",
            "ServerError": "UNREACHABLE",
            "TokenError": "AUTH",
            "ToolFailedError": "TOOL_FAILED",
            "ToolNotFoundError": "PROTOCOL",
            "TraceFormatError": "USAGE",
            "TransportError": "UNREACHABLE",
            "UnknownServerError": "CONFIG",
            "UntrustedConfigError": "UNTRUSTED",
        }
    )


@pytest.mark.parametrize("code", list(Exit))
def test_every_exit_code_says_what_it_means(code: Exit) -> None:
    assert code.meaning.endswith(".")


def test_an_interrupt_ends_as_a_shell_expects() -> None:
    assert exit_code_for(KeyboardInterrupt()) == 130


def test_a_file_that_cannot_be_written_is_a_matter_of_usage() -> None:
    assert exit_code_for(PermissionError(13, "Permission denied", "out.png")) is Exit.USAGE


def test_a_defect_has_a_code_of_its_own() -> None:
    assert exit_code_for(RuntimeError("bug")) is Exit.INTERNAL
