"""The options of the LangChain client, made into how tools are run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from plait.client.calls.callbacks import NOTIFICATION_CALLBACKS
from plait.client.config.servers import ServerConfig
from plait.client.options import ClientOptions
from plait.langchain.tools.callbacks import Callbacks
from plait.langchain.tools.output_handling import HandlingLayer, OutputHandling
from plait.langchain.tools.runner import RunnerSettings

OWN = frozenset(
    {
        "after_tool_call",
        "before_tool_call",
        "callbacks",
        "client_info",
        "default_tool_timeout",
        "handle_tool_errors",
        "log_level",
        "observers",
        "on_auth_error",
        "output_handling",
        "profile",
        "resources_as_tools",
        "roots",
        "sampling",
        "tool_interceptors",
        "use_standard_content_blocks",
    }
)

HEARD = frozenset({"on_progress", *NOTIFICATION_CALLBACKS})
"""The options that are callbacks."""

OPTIONS = OWN | frozenset(ClientOptions.__annotations__)
"""Every option of the client."""


def settings_from(
    options: Mapping[str, Any], servers: Mapping[str, ServerConfig]
) -> RunnerSettings:
    """Read how tools are run; a server's own word on where its content goes wins."""
    everywhere = options.get("output_handling")
    return RunnerSettings(
        interceptors=tuple(options.get("tool_interceptors") or ()),
        before_tool_call=options.get("before_tool_call"),
        after_tool_call=options.get("after_tool_call"),
        callbacks=options.get("callbacks") or Callbacks(),
        on_approval=options.get("on_approval"),
        handle_tool_errors=options.get("handle_tool_errors", True),
        raise_auth_errors=options.get("on_auth_error") == "raise",
        standard_blocks=options.get("use_standard_content_blocks", True),
        sanitize=options.get("sanitize", True),
        handling=OutputHandling.of(everywhere),
        handling_by_server={
            name: OutputHandling.of(everywhere, cast("HandlingLayer", server.output_handling))
            for name, server in servers.items()
            if server.output_handling is not None
        },
    )
