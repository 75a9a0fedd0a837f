"""The wire format of Langbase, in both directions."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any, Literal

import pytest
from inline_snapshot import snapshot

from plait.errors import BackendError
from plait.reasoning.backends.http import LangbaseCompleter, PipeNames
from plait.reasoning.prompts import PROMPTS
from plait.testing import LangbaseServer
from plait.testing.llm.turns import Raw
from tests.integration.reasoning.backends.completer_suite import ONE_PIPE, prompt


@pytest.mark.anyio
async def test_opening_makes_the_pipes_that_the_modes_need() -> None:
    pipes = PipeNames(got_score="got", got_refine="got", linear="mine")

    with LangbaseServer(key="user_key") as server:
        completer = LangbaseCompleter("user_key", base_url=server.url, pipes=pipes)
        await completer.open()
        await completer.aclose()

    made = {
        mode: (made["temperature"], made["max_tokens"], made.get("messages"))
        for mode, name in asdict(pipes).items()
        if (made := server.pipes[name])
    }
    own: dict[str, Any] = {
        mode: [{"role": "system", "content": text}] for mode, text in PROMPTS.items()
    }
    own["got_score"] = own["got_refine"] = None  # a pipe that modes share has no prompt of its own
    assert made == {
        "linear": (0.7, 2000, own["linear"]),
        "tree": (0.8, 3000, own["tree"]),
        "divergent": (0.9, 3000, own["divergent"]),
        "reflection": (0.6, 2500, own["reflection"]),
        "auto": (0.5, 1000, own["auto"]),
        "backtracking": (0.7, 2000, own["backtracking"]),
        **{mode: (0.7, 2500, own[mode]) for mode in made if mode.startswith("got_")},
    }
    assert len(server.requests) == len(server.pipes) == 9
    assert server.pipes["tree-reasoning-v1"] == snapshot(
        {
            "name": "tree-reasoning-v1",
            "status": "private",
            "model": "openai:gpt-4o-mini",
            "upsert": True,
            "stream": False,
            "json": True,
            "store": False,
            "temperature": 0.8,
            "max_tokens": 3000,
            "messages": [{"role": "system", "content": PROMPTS["tree"]}],
        }
    )
    assert {(asked.method, asked.path) for asked in server.requests} == {("POST", "/v1/pipes")}
    assert {asked.headers["content-type"] for asked in server.requests} == {"application/json"}
    assert {asked.headers["authorization"] for asked in server.requests} == {"Bearer user_key"}


@pytest.mark.parametrize("refuse_pipes", [False, True])
@pytest.mark.anyio
async def test_pipes_that_exist_already_are_fine(refuse_pipes: bool) -> None:
    with LangbaseServer(refuse_pipes=refuse_pipes) as server:
        completer = LangbaseCompleter("user_key", base_url=server.url, pipes=ONE_PIPE)
        await completer.open()
        await completer.open()
        await completer.aclose()

    assert list(server.pipes) == ["linear-reasoning-v1"]
    assert len(server.requests) == 1


@pytest.mark.anyio
async def test_a_wrong_key_is_found_out_when_the_backend_is_opened() -> None:
    with LangbaseServer(key="another") as server:
        completer = LangbaseCompleter("wrong-key", base_url=server.url, pipes=PipeNames())
        with pytest.raises(BackendError) as failed:
            await completer.open()
        await completer.aclose()

    assert (failed.value.backend, failed.value.status) == ("langbase", 401)
    assert "wrong-key" not in str(failed.value)


@pytest.mark.anyio
async def test_a_run_names_the_pipe_and_does_not_stream() -> None:
    with LangbaseServer(["yes"]) as server:
        completer = LangbaseCompleter("user_key", base_url=f"{server.url}/", pipes=ONE_PIPE)
        await completer.open()
        await completer.complete(replace(prompt("Why?"), variables={"tone": "dry"}))
        await completer.aclose()

    asked = server.requests[-1]
    assert (asked.method, asked.path) == ("POST", "/v1/pipes/run")
    assert asked.body == snapshot(
        {
            "name": "linear-reasoning-v1",
            "messages": [
                {"role": "system", "content": "Answer in JSON."},
                {"role": "user", "content": "Why?"},
            ],
            "stream": False,
            "variables": [{"name": "tone", "value": "dry"}],
        }
    )


@pytest.mark.anyio
async def test_a_run_without_variables_does_not_mention_them() -> None:
    with LangbaseServer(["yes"]) as server:
        completer = LangbaseCompleter("user_key", base_url=server.url, pipes=ONE_PIPE)
        await completer.open()
        await completer.complete(prompt())
        await completer.aclose()

    assert set(server.requests[-1].body) == {"name", "messages", "stream"}


@pytest.mark.parametrize("shape", ["nested", "flat"])
@pytest.mark.anyio
async def test_model_and_tokens_are_read_from_both_shapes_of_answers(
    shape: Literal["nested", "flat"],
) -> None:
    with LangbaseServer(["four and more"], shape=shape) as server:
        completer = LangbaseCompleter("user_key", base_url=server.url, pipes=ONE_PIPE)
        await completer.open()
        completion = await completer.complete(prompt())
        await completer.aclose()

    assert completion.text == "four and more"
    assert completion.model == "gpt-4o-mini"
    assert completion.output_tokens == 4
    assert completion.input_tokens is not None
    assert completion.input_tokens > 10


@pytest.mark.anyio
async def test_an_answer_without_model_and_tokens_will_do() -> None:
    with LangbaseServer([Raw('{"completion": "yes", "raw": {"usage": 3}}')]) as server:
        completer = LangbaseCompleter("user_key", base_url=server.url, pipes=ONE_PIPE)
        await completer.open()
        completion = await completer.complete(prompt())
        await completer.aclose()

    assert completion.text == "yes"
    assert (completion.model, completion.input_tokens, completion.output_tokens) == (
        None,
        None,
        None,
    )


@pytest.mark.anyio
async def test_an_answer_that_says_it_failed_is_an_error() -> None:
    failed = Raw('{"success": false, "completion": "x", "error": {"message": "no credit"}}')
    with LangbaseServer([failed]) as server:
        completer = LangbaseCompleter("user_key", base_url=server.url, pipes=ONE_PIPE)
        await completer.open()
        with pytest.raises(BackendError, match="no credit"):
            await completer.complete(prompt())
        await completer.aclose()


@pytest.mark.anyio
async def test_a_pipe_that_is_not_there_is_an_error_that_names_it() -> None:
    with LangbaseServer() as server:
        completer = LangbaseCompleter("user_key", base_url=server.url)
        with pytest.raises(BackendError, match="linear-reasoning-v1 not found") as failed:
            await completer.complete(prompt())
        await completer.aclose()

    assert failed.value.status == 404
