"""The options of the LangChain client, and the runner settings made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

from plait.client.options import ClientOptions
from plait.langchain.tools.callbacks import Callbacks
from plait.langchain.tools.content import HandlingLayer, OutputHandling
from plait.langchain.tools.runner import RunnerSettings

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from plait.client.calls.sampling import Sampler, Sampling
    from plait.client.catalog.schemas import Profile
    from plait.client.config.servers import ServerConfig
    from plait.langchain.tools.interceptors import Hook, ToolCallInterceptor


class LangChainOptions(ClientOptions, total=False):
    """The options of `MultiServerMCPClient`: those of every client, and those for LangChain."""

    profile: Profile | None
    """Provider whose schema rules apply to tools."""
    resources_as_tools: bool | None
    """Add tools that list and read resources."""
    tool_interceptors: Sequence[ToolCallInterceptor] | None
    """Functions that wrap every call."""
    before_tool_call: Hook | None
    """Called before a call; may change its arguments and headers."""
    after_tool_call: Hook | None
    """Called after a call; may change its result."""
    handle_tool_errors: bool | None
    """Turn failures into messages that the model reads; `False` raises them."""
    on_auth_error: Literal["interrupt", "raise"] | None
    """Missing credentials interrupt a graph with a checkpointer, and are a message elsewhere."""
    output_handling: HandlingLayer
    """Which content the model reads, and which only the program gets."""
    use_standard_content_blocks: bool | None
    """Use LangChain's standard content blocks, or the older form."""
    callbacks: Callbacks | None
    """All callbacks in one object."""
    sampling: Sampling | BaseChatModel | Sampler | str | Mapping[str, Any] | None
    """Model that servers may use, and its limits."""


def settings_from(
    options: Mapping[str, Any], servers: Mapping[str, ServerConfig]
) -> RunnerSettings:
    """Read how tools are run; the `output_handling` of a server wins over the client's."""
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
