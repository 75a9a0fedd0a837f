"""The LangChain tools of a client; loaded with the first list of tools, for LangChain is large."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plait._support.garbage import collection_paused
from plait.client.calls.result_budget.limiter import READ_MORE
from plait.client.catalog.deferral import Split
from plait.langchain.client.deferred import deferred_tools
from plait.langchain.client.own_tools import read_more_tools, resource_tools
from plait.langchain.tools.tool import MCPTool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.messages import BaseMessage
    from langchain_core.tools import BaseTool

    from plait.client.catalog.schemas import Profile
    from plait.client.catalog.tool import Tool
    from plait.langchain.client.client import MultiServerMCPClient, Selection


def langchain_tools(
    client: MultiServerMCPClient,
    selection: Selection,
    listed: Sequence[Tool],
    *,
    profile: Profile | None,
    with_resources: bool,
    defer: bool,
    messages: Sequence[BaseMessage] | None,
) -> list[BaseTool]:
    """Make tools of listed ones, and those that the client adds to them."""
    toolbox = selection.toolbox
    split = toolbox.deferral.split(list(listed)) if defer else Split(tuple(listed))
    taken = {tool.name for tool in listed}
    settings = client.runner(selection.access).settings
    readers = read_more_tools(toolbox, taken=taken, settings=settings, access=selection.access)
    reader = readers[0].name if readers else READ_MORE
    runner = client.runner(selection.access, reader=reader)
    with collection_paused():
        tools: list[BaseTool] = [MCPTool(tool, runner, profile=profile) for tool in split.shown]
    if with_resources:
        taken |= {reader}
        tools += resource_tools(
            toolbox, selection.servers, taken=taken, settings=settings, reader=reader
        )
    own = [*readers, *deferred_tools(split, runner, selection, taken, messages)]
    return [*tools, *(tool.with_profile(profile) for tool in own)]
