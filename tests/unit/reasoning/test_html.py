"""A session is one page: every thought in graph, tree and details, and nothing of it is markup."""

from __future__ import annotations

import re

import pytest

from plait.reasoning.diagram import SessionDocument, read_document
from plait.reasoning.html import thinking, thinking_page
from plait.reasoning.values import Session, Thought
from tests.unit.reasoning.conftest import Desk

pytestmark = pytest.mark.anyio

HOSTILE = '</pre><script>alert(1)</script>\x1b[31m\u202e" onload="x'


async def _document(desk: Desk, session: str) -> SessionDocument:
    found = await desk.store.get_session(session)
    assert found is not None
    return await read_document(desk.store, found)


async def test_a_page_has_every_thought_its_rationale_and_the_conclusion(desk: Desk) -> None:
    ways = [{"thought": f"way {n}", "rationale": f"cheap {n}"} for n in range(3)]
    await desk("linear", content="the question", session_id="s")
    await desk("tree", content="which?", session_id="s", branches=ways)
    await desk("checkpoint_create", session_id="s", name="fork")
    await desk("tree_complete", session_id="s", branch_id="b2", completed=False)
    await desk("session_conclude", session_id="s", conclusion="Take way 1.", thought_ids=["t4"])
    document = await _document(desk, "s")

    text = thinking(document)

    for thought in document.thoughts:
        label = f"t{thought.position}"
        assert f'<article id="{label}">' in text
        assert text.count(f'href="#{label}"') >= 2  # in the graph and in the tree
    assert "because: cheap 1" in text
    assert "⚑ fork" in text
    assert "Take way 1." in text
    steps = [
        int(step) for step in re.findall(r'<a href="#t\d+" class="node[^>]*data-step="(\d+)"', text)
    ]
    assert sorted(set(steps)) == list(range(1, len(document.thoughts) + 1))


async def test_what_a_backtrack_left_behind_is_marked_with_its_step(desk: Desk) -> None:
    await desk("linear", content="the question", session_id="s")
    kept = await desk("checkpoint_create", session_id="s", name="start")
    await desk("linear", content="a dead end", session_id="s")
    await desk("backtrack", session_id="s", checkpoint_id=kept["id"], thought="another way")

    text = thinking(await _document(desk, "s"))

    assert 'class="node is-linear faded' in text
    assert 'data-step="2" data-left="3"' in text


async def test_no_part_of_a_session_shows_a_secret(desk: Desk) -> None:
    ways = [{"thought": "one"}, {"thought": "two"}]
    refs = [{"to_branch": "b1", "type": "extends", "reason": "password=hunter2222"}]
    await desk("linear", content="is password=hunter2222 safe?", session_id="s")
    await desk("tree", content="which?", session_id="s", branches=ways)
    await desk("tree", content="more", session_id="s", branches=ways, cross_refs=refs)
    await desk("checkpoint_create", session_id="s", name="password=hunter2222")

    text = thinking_page(await _document(desk, "s"))

    assert "hunter2222" not in text
    assert text.count("password=***") >= 4


async def test_texts_are_shown_as_text_and_secrets_are_hidden(desk: Desk) -> None:
    await desk("linear", content=HOSTILE, session_id="s")
    await desk("linear", content="use password=hunter2222 and go on", session_id="s")

    text = thinking_page(await _document(desk, "s"))

    body = text[text.index("<main>") : text.index("</main>")]
    assert "<script" not in body
    assert ' onload="' not in body
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "hunter2222" not in text


def _long_session(count: int) -> SessionDocument:
    thoughts = [
        Thought(
            id=f"id{n}",
            session_id="s",
            content=f"thought {n}",
            mode="linear",
            parent_id=f"id{(n - 1) // 2}" if n else None,
            position=n + 1,
        )
        for n in range(count)
    ]
    return SessionDocument(
        session=Session(id="s", mode="linear"),
        thoughts=thoughts,
        branches=(),
        cross_refs=(),
        checkpoints=(),
        graphs=(),
        nodes=(),
        edges=(),
    )


async def test_one_file_is_small_and_needs_nothing_else() -> None:
    text = thinking_page(_long_session(1))

    assert len(text.encode()) < 100_000  # of it, payload is a few bytes
    assert not re.search(r'(?:src|href)="(?!#|data:image/png;base64,")', text)
    assert 'http-equiv="Content-Security-Policy" content="default-src \'none\'' in text.replace(
        "&#x27;", "'"
    )


async def test_a_chain_of_1000_thoughts_is_no_deeper_than_its_branches() -> None:
    document = _long_session(1000)
    chain = SessionDocument(
        **{
            name: getattr(document, name)
            for name in (
                "session",
                "branches",
                "cross_refs",
                "checkpoints",
                "graphs",
                "nodes",
                "edges",
            )
        },
        thoughts=[
            Thought(
                id=f"c{n}",
                session_id="s",
                content="x",
                mode="linear",
                position=n + 1,
                parent_id=f"c{n - 1}" if n else None,
            )
            for n in range(1000)
        ],
    )

    assert thinking(chain).count("<ul") < 10 + thinking(chain).count('class="notes"')


async def test_an_empty_session_says_so() -> None:
    assert "no thoughts yet" in thinking(_long_session(0))
