"""The wire format of Langbase, in both directions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import pytest
from inline_snapshot import snapshot

from plait.errors import BackendError
from plait.reasoning.backends.http import PipeNames
from plait.reasoning.backends.port import Completion, Prompt
from plait.reasoning.prompts import PROMPTS
from plait.testing import LangbaseServer
from plait.testing.llm.turns import Raw
from tests.integration.reasoning.backends.support import langbase, opened, prompt

pytestmark = pytest.mark.anyio


async def _asked(
    turns: Sequence[Any], asked: Prompt | None = None, **options: Any
) -> tuple[Completion, list[Any]]:
    """Ask a stand-in, and return its completion and the requests that it got."""
    with LangbaseServer(turns, **options) as server:
        async with opened(langbase(f"{server.url}/")) as completer:
            completion = await completer.complete(asked or prompt())
    return completion, server.requests


async def test_opening_makes_the_pipes_that_the_modes_need_once() -> None:
    pipes = PipeNames(got_score="got", got_refine="got", linear="mine")

    with LangbaseServer(key="user_key") as server:
        async with opened(langbase(server.url, pipes=pipes)) as completer:
            await completer.open()

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
        "solve": (0.0, 3000, own["solve"]),
        "backtracking": (0.7, 2000, own["backtracking"]),
        **{mode: (0.7, 2500, own[mode]) for mode in made if mode.startswith("got_")},
    }
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
    assert len(server.requests) == len(server.pipes) == 10
    heads = {
        (one.method, one.path, one.headers["content-type"], one.headers["authorization"])
        for one in server.requests
    }
    assert heads == {("POST", "/v1/pipes", "application/json", "Bearer user_key")}


@pytest.mark.parametrize("refuse_pipes", [False, True])
async def test_pipes_that_exist_already_are_fine(refuse_pipes: bool) -> None:
    with LangbaseServer(refuse_pipes=refuse_pipes) as server:
        for _ in range(2):
            async with opened(langbase(server.url)):
                pass

    assert list(server.pipes) == ["linear-reasoning-v1"]
    assert len(server.requests) == 2


async def test_a_wrong_key_is_found_out_when_the_backend_is_opened() -> None:
    with LangbaseServer(key="another") as server, pytest.raises(BackendError) as failed:
        async with opened(langbase(server.url, "wrong-key", pipes=PipeNames())):
            pass

    assert (failed.value.backend, failed.value.status) == ("langbase", 401)
    assert "wrong-key" not in str(failed.value)


async def test_a_run_names_the_pipe_does_not_stream_and_has_variables_only_if_there_are_any() -> (
    None
):
    _, requests = await _asked(["yes"], replace(prompt("Why?"), variables={"tone": "dry"}))
    _, without = await _asked(["yes"])

    asked = requests[-1]
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
    assert set(without[-1].body) == {"name", "messages", "stream"}


@pytest.mark.parametrize("shape", ["nested", "flat"])
async def test_model_and_tokens_are_read_from_both_shapes_of_answers(shape: str) -> None:
    completion, _ = await _asked(["four and more"], shape=shape)

    assert (completion.text, completion.model) == ("four and more", "gpt-4o-mini")
    assert completion.output_tokens == 4
    assert (completion.input_tokens or 0) > 10


async def test_an_answer_without_model_and_tokens_will_do_but_not_one_that_failed() -> None:
    completion, _ = await _asked([Raw('{"completion": "yes", "raw": {"usage": 3}}')])
    assert completion == Completion(text="yes")

    failed = '{"success": false, "completion": "x", "error": {"message": "no credit"}}'
    with pytest.raises(BackendError, match="no credit"):
        await _asked([Raw(failed)])


async def test_a_pipe_that_is_not_there_is_an_error_that_names_it() -> None:
    with LangbaseServer() as server:
        async with opened(langbase(server.url, pipes=None)) as completer:
            with pytest.raises(BackendError, match="linear-reasoning-v1 not found") as failed:
                await completer.complete(prompt())

    assert failed.value.status == 404
