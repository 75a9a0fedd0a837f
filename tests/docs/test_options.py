"""The pages about options and other adapters name what there is, and nothing else."""

from __future__ import annotations

import ast
import inspect
import itertools
import re
from pathlib import Path

import pytest

import plait
import plait.client
import plait.langchain
from plait import ConfigError, MultiServerMCPClient, Toolbox, read_config
from plait.client.config.keys import CLIENT_KEYS, server_keys
from plait.client.config.raw_value import camel_case
from plait.client.options import CLIENT_OPTIONS, ClientOptions, ToolboxOptions
from plait.langchain.client.loading import convert_mcp_tool_to_langchain_tool, load_mcp_tools
from plait.langchain.client.middleware import MCPToolsMiddleware
from plait.langchain.client.settings import LangChainOptions
from tests.docs.language_server import hover_texts
from tests.docs.pages import ROOT

OPTIONS = (ROOT / "docs" / "reference" / "options.md").read_text()
MIGRATION = (ROOT / "docs" / "migration.md").read_text()
ROW = re.compile(
    r"^\| `(?P<name>\w+)` \| .+ \| .+ \| (?P<where>[A-Za-z*, ]*) ?\| (?P<text>.+) \|$",
    re.MULTILINE,
)
ROWS = {found["name"]: found for found in ROW.finditer(OPTIONS)}

ADAPTER_NAMES = re.findall(
    r"\w+",
    """
    CallbackContext Callbacks Connection ElicitationCallback LoggingMessageCallback
    MCPToolArtifact MCPToolCallRequest McpHttpClientFactory MultiServerMCPClient ProgressCallback
    SSEConnection StdioConnection StreamableHttpConnection ToolCallInterceptor WebsocketConnection
    convert_mcp_prompt_message_to_langchain_message convert_mcp_resource_to_langchain_blob
    convert_mcp_tool_to_langchain_tool create_session get_mcp_resource load_mcp_prompt
    load_mcp_resources load_mcp_server_info load_mcp_tools to_fastmcp
""",
)
"""What users of langchain-mcp-adapters import."""

JAVASCRIPT_NAMES = re.findall(
    r"\w+",
    """
    mcpServers throwOnLoadError prefixToolNameWithServerName additionalToolNamePrefix
    useStandardContentBlocks outputHandling defaultToolTimeout onConnectionError beforeToolCall
    afterToolCall onMessage onProgress onInitialized onCancelled onPromptsListChanged
    onResourcesListChanged onResourcesUpdated onRootsListChanged onToolsListChanged transport type
    command args env encoding stderr cwd restart url headers authProvider reconnect
    automaticSSEFallback initializeConnections getTools getClient listResources
    listResourceTemplates readResource setLoggingLevel config close MCPClientError ToolException
""",
)
"""The options and methods of the JavaScript adapter."""

ELIXIR_NAMES = re.findall(
    r"\w+",
    """
    to_functions refresh_tools only except filter_list filter_fn tool_filter cache cache_tools
    fallback_client before_fallback timeout execute_tool convert_input_schema to_json_schema
    map_content map_content_item classify_error should_retry
""",
)
"""Those of the Elixir library."""


def parameters_of(function: object) -> set[str]:
    assert callable(function)
    return set(inspect.signature(function).parameters) - {"self"}


def sentences_of(*options: type) -> dict[str, str]:
    """Return the docstring below each field of these classes."""
    found: dict[str, str] = {}
    for each in options:
        (definition,) = ast.parse(inspect.getsource(each)).body
        assert isinstance(definition, ast.ClassDef)
        for field, text in itertools.pairwise(definition.body):
            match field, text:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(sentence))),
                ):
                    found[name] = sentence
                case _:
                    pass
    return found


def test_every_option_of_the_client_has_a_row() -> None:
    assert set(ROWS) == set(LangChainOptions.__annotations__)
    assert "`connections`" in OPTIONS


def test_every_option_has_a_reader_and_every_reader_an_option() -> None:
    names = set(LangChainOptions.__annotations__)

    assert CLIENT_KEYS.spellings == names | {camel_case(name) for name in names}


def test_an_option_has_the_same_sentence_in_the_code_and_on_the_page() -> None:
    sentences = sentences_of(ClientOptions, LangChainOptions)

    assert set(sentences) == set(LangChainOptions.__annotations__)
    for name, sentence in sentences.items():
        assert ROWS[name]["text"].startswith(sentence)


@pytest.mark.parametrize(
    ("client", "options"),
    [
        (MultiServerMCPClient, (ClientOptions, LangChainOptions)),
        (Toolbox, (ClientOptions, ToolboxOptions)),
    ],
)
def test_an_editor_shows_a_sentence_for_the_client_and_for_each_option(
    client: type, options: tuple[type, ...], tmp_path: Path
) -> None:
    sentences = sentences_of(*options)
    arguments = "".join(f"    {name}=None,\n" for name in sentences)
    name = client.__name__
    program = f"from plait import {name}\n\n{name}(\n    {{}},\n{arguments})\n"
    places = {f"{name}=": sentence for name, sentence in sentences.items()}
    first_line = (client.__doc__ or "").partition("\n")[0]

    shown = hover_texts(program, [f"{name}(", *places], tmp_path)

    assert first_line in shown[f"{name}("]
    assert {place for place, sentence in places.items() if sentence not in shown[place]} == set()


def test_the_page_has_the_options_of_a_toolbox() -> None:
    section = OPTIONS.partition("## Options of `Toolbox`")[2].partition("\n## ")[0]
    sentences = sentences_of(ToolboxOptions)

    assert {*sentences, *CLIENT_OPTIONS} == set(ToolboxOptions.__annotations__)
    for name, sentence in sentences.items():
        assert re.search(rf"^\| `{name}` \|.*\| {re.escape(sentence)} \|$", section, re.MULTILINE)
    for name in LangChainOptions.__annotations__.keys() - CLIENT_OPTIONS:
        assert f"`{name}`" in section


@pytest.mark.parametrize("name", ROWS)
def test_an_option_may_stand_where_its_row_says(name: str) -> None:
    where = {place.strip() for place in ROWS[name]["where"].split(",")}
    by_call = parameters_of(MultiServerMCPClient.get_tools) | {"default_tool_timeout"}

    assert name in CLIENT_KEYS.by_spelling
    assert ("server" in where) == (name in server_keys(None).by_spelling)
    assert ("call" in where) == (name in by_call)
    if "*Python*" in where and name not in {"callbacks", "observers", "tool_interceptors"}:
        with pytest.raises(ConfigError):
            read_config({"mcpServers": {"one": {"command": "one"}}, name: "text"})


def test_every_option_of_a_list_is_described() -> None:
    section = OPTIONS.partition("## Options of one list or call")[2]

    for name in parameters_of(MultiServerMCPClient.get_tools):
        assert f"`{name}`" in section or f"`*{name}`" in section


def test_the_page_about_other_adapters_has_a_row_for_every_name_of_theirs() -> None:
    rows = [line.split(" | ") for line in MIGRATION.splitlines() if line.startswith("| ")]
    theirs = set(re.findall(r"\w+", "\n".join(row[0] for row in rows)))

    assert {*ADAPTER_NAMES, *JAVASCRIPT_NAMES, *ELIXIR_NAMES} - theirs == set()


@pytest.mark.parametrize("name", ADAPTER_NAMES)
def test_a_name_of_the_other_adapter_is_here(name: str) -> None:
    assert getattr(plait, name) is not None


def test_the_page_about_other_adapters_names_only_what_exists() -> None:
    right_column = [
        line.rsplit(" | ", 1)[1] for line in MIGRATION.splitlines() if line.startswith("| ")
    ]
    called = set(re.findall(r"`(?:await )?(?:client\.)?(\w+)\(", "\n".join(right_column)))
    functions = (load_mcp_tools, convert_mcp_tool_to_langchain_tool, MCPToolsMiddleware.__init__)
    arguments = set[str]().union(*(parameters_of(one) for one in functions))

    assert len(called) > 20
    known = {
        *dir(plait),
        *dir(plait.langchain),
        *dir(plait.client),
        *dir(MultiServerMCPClient),
        *ROWS,
        *arguments,
    }
    assert called - known == set()


def test_functions_of_the_other_adapter_take_the_arguments_they_take_there() -> None:
    section = MIGRATION.partition("## From langchain-mcp-adapters")[2].partition("\n## ")[0]
    written = re.findall(r"^\| `(client\.)?(\w+)\(([^`]*)\)` \|", section, re.MULTILINE)

    assert len(written) > 10
    for of_client, name, arguments in written:
        function = getattr(MultiServerMCPClient if of_client else plait, name)
        options = set(LangChainOptions.__annotations__) if name == "MultiServerMCPClient" else set()
        assert set(re.findall(r"(\w+)=", arguments)) <= parameters_of(function) | options
