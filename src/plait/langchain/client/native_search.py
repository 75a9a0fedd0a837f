"""The tool search of model providers, for tools that are deferred."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from langchain_core.tools import BaseTool

from plait.client.catalog.deferral import DeferralPlan
from plait.langchain.tools.model_support import provider_of
from plait.langchain.tools.tool import MCPTool

_SEARCHING: Final = frozenset({"anthropic", "openai"})
"""The providers with a search that LangChain knows how to ask for."""


def has_tool_search(model: object) -> bool:
    """Say whether a model's provider searches tools by itself."""
    return provider_of(model) in _SEARCHING


def marked_for_search(tools: Sequence[BaseTool], deferring: DeferralPlan) -> list[BaseTool]:
    """Mark the tools that are deferred, which the provider then keeps from the model."""
    ours = [tool.tool for tool in tools if isinstance(tool, MCPTool)]
    deferred = {tool.name for tool in deferring.split(ours).deferred}
    return [
        tool.model_copy(update={"extras": {**(tool.extras or {}), "defer_loading": True}})
        if tool.name in deferred
        else tool
        for tool in tools
    ]
