"""Agents remember how they were made, as long as they are there."""

from __future__ import annotations

import gc
import warnings
import weakref
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest
from langchain import agents
from langchain_core.tools import tool

from plait.langchain import AgentSpec, create_agent
from plait.langchain.client.spec import name_of
from plait.testing import ScriptedChatModel


@tool
def first() -> str:
    """Say one."""
    return "one"


@tool
def second() -> str:
    """Say two."""
    return "two"


def test_an_agent_is_made_and_remembered() -> None:
    model = ScriptedChatModel(["done"])
    agent = create_agent(model, [first], system_prompt="Be brief.", name="helper")

    spec = AgentSpec.of(agent)

    assert agent.name == "helper"
    assert spec == AgentSpec(model, (first,), {"system_prompt": "Be brief.", "name": "helper"})
    assert AgentSpec.of(spec) is spec
    state = agent.invoke({"messages": [{"role": "user", "content": "Hello"}]})
    assert state["messages"][-1].text == "done"
    assert model.seen[0][0].text == "Be brief."


def test_an_agent_with_other_tools_is_another_one() -> None:
    agent = create_agent(ScriptedChatModel(["done"]), [first])

    other = AgentSpec.of(agent).with_tools([first, second]).create()

    assert AgentSpec.of(other).tools == (first, second)
    assert AgentSpec.of(agent).tools == (first,)


def test_an_agent_that_was_made_otherwise_is_an_error_that_shows_both_ways() -> None:
    agent = agents.create_agent(ScriptedChatModel(["done"]), [])

    with pytest.raises(TypeError, match=r"langchain\.create_agent.*langchain\.AgentSpec"):
        AgentSpec.of(agent)
    with pytest.raises(TypeError):
        AgentSpec.of("agent")
    with pytest.raises(TypeError):
        AgentSpec.of(["unhashable"])


def test_an_agent_is_forgotten_with_its_last_reference() -> None:
    agent = create_agent(ScriptedChatModel(["done"]), [])
    gone = weakref.ref(agent)

    del agent
    gc.collect()

    assert gone() is None


def test_every_kind_of_tool_has_a_name() -> None:
    def plain() -> None: ...

    assert name_of(first) == "first"
    assert name_of(plain) == "plain"
    assert name_of({"name": "web_search", "type": "web_search_20250305"}) == "web_search"
    assert name_of({"type": "function", "function": {"name": "inner"}}) == "inner"
    assert name_of({"type": "nameless"}) == ""


def test_a_graph_of_langchain_shows_the_model_of_its_agent_nowhere() -> None:
    """If this fails, agents of LangChain's own `create_agent` can be created again: see `of`."""
    model = ScriptedChatModel(["hi"])
    agent: Any = agents.create_agent(model, [first], system_prompt="Be brief.", name="clerk")
    seen: dict[int, Any] = {}
    layer: list[Any] = [agent]
    # The public attributes of the graph, and of all of LangChain that it holds.
    for _ in range(5):
        found: list[Any] = []
        for one in layer:
            if isinstance(one, Mapping | list | tuple):
                found += one.values() if isinstance(one, Mapping) else one
            elif type(one).__module__.startswith(("langchain", "langgraph")):
                names = [name for name in dir(one) if not name.startswith("_")]
                found += [value for name in names if (value := _attribute(one, name)) is not None]
        layer = [one for one in found if id(one) not in seen]
        seen.update({id(one): one for one in layer})

    assert id(agent.builder.nodes["model"].runnable) in seen
    assert any(getattr(one, "name", None) == "first" for one in seen.values())
    assert not [one for one in seen.values() if one is model or one == "Be brief."]


def _attribute(holder: Any, name: str) -> Any:
    with suppress(Exception), warnings.catch_warnings(action="ignore"):
        return getattr(holder, name)
