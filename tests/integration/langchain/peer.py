"""The deliberate differences from `langchain-mcp-adapters`, as rows of the migration page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T", bound=Callable[..., Any])

PAGE = Path(__file__).resolve().parents[3] / "docs" / "migration.md"

DIFFERENCES = frozenset(
    {
        "Modules",
        "Sessions",
        "Content of a single text",
        "Ids of content blocks",
        "A result without content",
        "Embedded resources",
        "Links to resources",
        "Audio",
        "Artifact",
        "Structured content without text",
        "Metadata of a tool",
        "Class of a tool",
        "Two servers with one tool name",
        "Connection lost, timeout, HTTP error during a call",
        "`${VAR}` that is not set",
        "MCP types",
        "HTTP client",
        "Arguments",
        "Prompts with other content than text",
        "Information about a server",
        "A session that is already initialized",
        "Texts of errors",
        "Client in `async with`",
        "Content blocks served by `to_fastmcp`",
        "Failures served by `to_fastmcp`",
    }
)
"""The first cells of their rows."""


def differs(row: str) -> Callable[[T], T]:
    """Mark a test that shows a difference; the rest of the test is what both do."""
    assert row in DIFFERENCES, row

    def mark(test: T) -> T:
        SHOWN.add(row)
        return test

    return mark


SHOWN: set[str] = set()
"""The rows that a test shows."""


def rows_of_page() -> set[str]:
    """Return the first cells of the table of differences on the migration page."""
    section = PAGE.read_text().split("## What is different on purpose")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return {line.split(" | ")[0].removeprefix("| ") for line in lines[2:]}


PEER_TESTS: dict[str, tuple[str, ...]] = {
    "Modules": ("test_import",),
    "A result without content": ("test_convert_empty_text_content",),
    "Content of a single text": (
        "test_convert_single_text_content",
        "test_convert_with_structured_content",
        "test_convert_mcp_tool_to_langchain_tool",
        "test_load_mcp_tools",
        "test_callbacks_with_mcp_tool_execution",
        "test_interceptor_modifies_tool_name",
        "test_interceptor_returns_custom_result",
        "test_interceptor_caching",
        "test_multiple_interceptors_compose",
        "test_parallel_tool_invocation_across_multiple_servers",
    ),
    "Ids of content blocks": (
        "test_convert_multiple_text_contents",
        "test_convert_image_content",
        "test_convert_mixed_content_with_structured_content",
        "test_mcp_tool_error_returns_failed_tool_message",
        "test_mcp_tool_error_empty_content_uses_fallback_message",
        "test_mcp_tool_error_non_text_only_passes_through",
        "test_mcp_tool_success_returns_successful_tool_message",
    ),
    "Artifact": ("test_mcp_tool_success_returns_artifact_through_ainvoke",),
    "Embedded resources": (
        "test_convert_with_non_text_content",
        "test_convert_embedded_resource_blob_image",
        "test_convert_embedded_resource_blob_file",
    ),
    "Links to resources": (
        "test_convert_resource_link",
        "test_convert_resource_link_image",
        "test_convert_resource_link_image_jpeg",
        "test_convert_resource_link_text",
        "test_convert_resource_link_no_mime_type",
    ),
    "Audio": ("test_convert_audio_content_raises", "test_adapter_bug_still_raises"),
    "Connection lost, timeout, HTTP error during a call": ("test_transport_failure_still_raises",),
    "Metadata of a tool": (
        "test_load_mcp_tools_with_annotations",
        "test_convert_mcp_tool_metadata_variants",
    ),
    "MCP types": (
        "test_interceptor_modifies_result",
        "test_load_mcp_server_info_with_session",
        "test_client_get_server_info",
        "test_client_get_server_info_single_server",
        "test_convert_langchain_tool_to_fastmcp_tool",
    ),
    "HTTP client": ("test_load_mcp_tools_with_custom_httpx_client_factory",),
    "Two servers with one tool name": ("test_get_tools_with_name_conflict",),
    "Prompts with other content than text": (
        "test_convert_mcp_prompt_message_to_langchain_message_with_resource_content",
        "test_convert_mcp_prompt_message_to_langchain_message_with_image_content",
    ),
    "Information about a server": (
        "test_load_mcp_server_info_with_connection",
        "test_load_mcp_server_info_over_stdio",
        "test_load_mcp_server_info_no_instructions",
    ),
    "A session that is already initialized": (
        "test_load_mcp_server_info_rejects_initialized_session",
        "test_load_mcp_server_info_rejects_initialized_real_session",
    ),
    "Texts of errors": ("test_client_get_server_info_unknown_server",),
    "`${VAR}` that is not set": ("test_stdio_session_warns_on_undefined_env_var",),
}
"""The tests of `langchain-mcp-adapters` 0.3.2 that do not pass as they are, by the first row that
they meet; with that changed, and servers of SDK 2, they pass. The others pass, but for those that
replace functions inside of it: `test_stdio_session_env_none_stays_none`,
`test_load_mcp_server_info_passes_server_name_to_callbacks` and
`test_multi_server_client_threads_handle_tool_errors`."""
