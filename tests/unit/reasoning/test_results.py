"""Every tool answers with exactly the fields it promises, and they mean what they say."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from dirty_equals import IsFloat, IsList, IsPartialDict, IsStr
from sqlalchemy import select

from plait.reasoning.registry import TOOLS
from plait.reasoning.results import result_data, result_text
from plait.reasoning.serving.calls import input_schema, listed_tools, output_schema
from plait.reasoning.storage import tables
from plait.reasoning.values import Invocation, StateSnapshot
from tests.unit.reasoning.conftest import Desk

pytestmark = pytest.mark.anyio

ID = IsStr(regex=r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TIME = IsStr(regex=r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00")
ALWAYS = {"backend": "scripted", "next": IsList(length=...)}

BRANCH = {
    "id": ID,
    "session_id": ID,
    "name": IsStr(),
    "parent_branch_id": None,
    "priority": 1.0,
    "confidence": 0.8,
    "state": "active",
    "created_at": TIME,
    "updated_at": TIME,
    "metadata": None,
}

REPLIES: dict[str, Any] = {
    "linear-reasoning-v1": {"thought": "next step", "confidence": 0.9, "metadata": {}},
    "tree-reasoning-v1": {
        "branches": [
            {"thought": "short", "confidence": 0.5, "rationale": "r0"},
            {"thought": "ä" * 40, "confidence": 0.7, "rationale": "r1"},
            {"thought": "third", "confidence": 0.2, "rationale": "r2"},
        ],
        "recommended_branch": 1,
        "metadata": {},
    },
    "divergent-reasoning-v1": {
        "perspectives": [
            {"thought": "p0", "novelty": 0.2, "viability": 0.8, "assumptions_challenged": ["a"]},
            {"thought": "p1", "novelty": 0.8, "viability": 0.4},
        ],
        "synthesis": "together",
    },
    "reflection-v1": {
        "analysis": "fine",
        "strengths": ["s"],
        "weaknesses": ["w"],
        "recommendations": ["r"],
        "confidence": 0.7,
        "quality_score": 0.9,
        "improved_thought": "better",
    },
    "mode-router-v1": {
        "recommended_mode": "tree",
        "confidence": 0.6,
        "rationale": "why",
        "complexity": 0.8,
    },
    "backtracking-reasoning-v1": {"thought": "elsewhere", "confidence": 0.9},
    "got-generate-v1": {
        "continuations": [
            {"thought": "c0", "confidence": 0.9, "novelty": 0.1, "rationale": "x"},
            {"thought": "c1"},
            {"thought": "c2"},
            {"thought": "c3"},
        ]
    },
    "got-score-v1": {
        "overall_score": 0.75,
        "breakdown": {"relevance": 0.9, "validity": 0.8},
        "is_terminal_candidate": True,
        "rationale": "good",
    },
    "got-aggregate-v1": {
        "aggregated_thought": "joined",
        "confidence": 0.6,
        "sources_used": [1, 2],
        "synthesis_approach": "merge",
        "conflicts_resolved": ["one"],
    },
    "got-refine-v1": {
        "refined_thought": "finer",
        "confidence": 0.95,
        "improvements_made": ["i"],
        "quality_delta": 0.2,
    },
}


@pytest.fixture
def scripted(desk: Desk) -> Desk:
    desk.script(REPLIES)
    return desk


async def test_a_linear_step(scripted: Desk) -> None:
    first = await scripted("linear", content="begin")
    second = await scripted("linear", content="go on", session_id=first["session_id"])

    assert first == {
        "thought_id": ID,
        "session_id": ID,
        "content": "next step",
        "confidence": 0.9,
        "previous_thought": None,
        **ALWAYS,
    }
    assert second == IsPartialDict(previous_thought=first["thought_id"])
    assert "- next step" in scripted.completer.prompts[1].user
    stored = await scripted.store.get_thought(first["thought_id"])
    assert stored is not None
    assert (stored.mode, stored.confidence, stored.parent_id) == ("linear", 0.9, None)


async def test_the_higher_confidence_is_kept_and_the_models_own_is_told(scripted: Desk) -> None:
    result = await scripted("linear", content="x", confidence=0.95)

    stored = await scripted.store.get_thought(result["thought_id"])
    assert stored is not None
    assert (result["confidence"], stored.confidence) == (0.9, 0.95)


async def test_a_tree(scripted: Desk) -> None:
    result = await scripted("tree", content="which way?")
    session = result["session_id"]

    assert result == {
        "session_id": ID,
        "branch_id": ID,
        "thought_id": ID,
        "content": "which way?",
        "confidence": 0.8,
        "child_branches": [
            {"id": ID, "name": "Option 1: short", "confidence": 0.5, "rationale": "r0"},
            {
                "id": ID,
                "name": f"Option 2: {'ä' * 27}...",
                "confidence": 0.7,
                "rationale": "r1",
            },
            {"id": ID, "name": "Option 3: third", "confidence": 0.2, "rationale": "r2"},
        ],
        "recommended_branch_index": 1,
        "parent_branch": None,
        "cross_refs_created": 0,
        **ALWAYS,
    }
    listed = (await scripted("tree_list", session_id=session))["branches"]
    assert listed[0] == {**BRANCH, "name": "Root"}
    assert [one["priority"] for one in listed] == [1.0, 1.0, 2.0, 1.0]
    assert [one["parent_branch_id"] for one in listed[1:]] == [result["branch_id"]] * 3
    assert "3 distinct paths" in scripted.completer.prompts[0].system

    focused = await scripted("tree_focus", session_id=session, branch_id=listed[2]["id"])
    assert focused == {**listed[2], **ALWAYS}
    ended = await scripted("tree_complete", branch_id=listed[2]["id"], completed=False)
    assert ended == {**listed[2], "state": "abandoned", "updated_at": TIME, **ALWAYS}
    found = await scripted.store.get_session(session)
    assert found is not None
    assert found.active_branch_id == listed[2]["id"]


async def test_a_tree_on_a_given_branch(scripted: Desk) -> None:
    first = await scripted("tree", content="which way?")
    there = first["child_branches"][0]["id"]

    result = await scripted(
        "tree",
        content="from there",
        session_id=first["session_id"],
        branch_id=there,
        num_branches=2,
        cross_refs=[{"to_branch": first["branch_id"], "type": "SUPPORTS", "reason": "because"}],
    )

    assert result == IsPartialDict(parent_branch=there, cross_refs_created=1)
    assert len(result["child_branches"]) == 2
    branch = await scripted.store.get_branch(result["branch_id"])
    assert branch is not None
    assert branch.name == f"Branch from {there[:8]}"
    (ref,) = await scripted.store.get_session_cross_refs(first["session_id"])
    assert (ref.from_branch_id, ref.to_branch_id) == (branch.id, first["branch_id"])
    assert (ref.ref_type, ref.strength, ref.reason) == ("supports", 1.0, "because")


async def test_several_points_of_view(scripted: Desk) -> None:
    result = await scripted("divergent", content="hm", num_perspectives=2, force_rebellion=True)

    assert result == {
        "session_id": ID,
        "thought_id": ID,
        "perspectives": [
            {
                "thought_id": ID,
                "content": "p0",
                "novelty": 0.2,
                "viability": 0.8,
                "assumptions_challenged": ["a"],
            },
            {
                "thought_id": ID,
                "content": "p1",
                "novelty": 0.8,
                "viability": 0.4,
                "assumptions_challenged": [],
            },
        ],
        "synthesis": "together",
        "synthesis_thought_id": ID,
        "total_novelty_score": 0.5,
        "most_viable_perspective": 0,
        "most_novel_perspective": 1,
        **ALWAYS,
    }
    stored = await scripted.store.get_session_thoughts(result["session_id"])
    assert [one.confidence for one in stored] == [0.7, 0.5, IsFloat(approx=0.6), IsFloat()]
    assert stored[1].metadata == {
        "novelty": 0.2,
        "viability": 0.8,
        "perspective_index": 0,
        "assumptions_challenged": ["a"],
    }
    assert stored[3].metadata == {"is_synthesis": True, "source_perspectives": 2}
    assert {one.parent_id for one in stored[1:]} == {result["thought_id"]}


async def test_a_reflection(scripted: Desk) -> None:
    first = await scripted("linear", content="begin")

    result = await scripted("reflection", thought_id=first["thought_id"], include_chain=True)

    assert result == {
        "session_id": first["session_id"],
        "reflection_thought_id": ID,
        "original_thought_id": first["thought_id"],
        "analysis": "fine",
        "strengths": ["s"],
        "weaknesses": ["w"],
        "recommendations": ["r"],
        "quality_score": 0.9,
        "improved_thought": {"thought_id": ID, "content": "better", "confidence": 0.7},
        "iterations_performed": 1,
        "quality_improved": False,
        **ALWAYS,
    }
    assert "- [linear] (confidence: 0.90) next step" in scripted.completer.prompts[-1].user
    noted = await scripted.store.get_thought(result["reflection_thought_id"])
    assert noted is not None
    assert (noted.parent_id, noted.metadata) == (
        first["thought_id"],
        {
            "strengths": ["s"],
            "weaknesses": ["w"],
            "recommendations": ["r"],
            "quality_score": 0.9,
            "iterations": 1,
        },
    )


async def test_reflection_goes_on_with_the_better_text_until_it_is_good(desk: Desk) -> None:
    def rating(quality: float, text: str) -> dict[str, Any]:
        return {"analysis": "a", "quality_score": quality, "improved_thought": text}

    desk.script({"reflection-v1": [rating(0.3, "two"), rating(0.6, "three"), rating(0.9, "")]})

    result = await desk("reflection", content="one", max_iterations=5)

    asked = [prompt.user.splitlines()[-1] for prompt in desk.completer.prompts]
    assert asked == ["one", "two", "three"]
    assert "iteration 2 of 5" in desk.completer.prompts[1].system
    assert result["improved_thought"]["content"] == "three"
    assert (result["iterations_performed"], result["quality_improved"]) == (3, True)
    invocations = await desk.store.read_all(Invocation, select(tables.invocations))
    assert [one.session_id for one in invocations] == [result["session_id"]] * 3


async def test_an_evaluation(scripted: Desk) -> None:
    first = await scripted("linear", content="begin")
    session = first["session_id"]
    await scripted("tree", content="x", session_id=session, num_branches=2)

    result = await scripted("reflection_evaluate", session_id=session)

    assert result == {
        "session_id": session,
        "total_thoughts": 4,
        "average_confidence": IsFloat(approx=(0.9 + 0.8 + 0.5 + 0.7) / 4),
        "mode_distribution": {"linear": 1, "tree": 3},
        "coherence_score": IsFloat(approx=(2 / 3 + (0.9 + 0.7 + 0.8) / 3) / 2),
        "recommendation": IsStr(),
        **ALWAYS,
    }


async def test_a_checkpoint(scripted: Desk) -> None:
    first = await scripted("tree", content="x")
    session = first["session_id"]

    made = await scripted("checkpoint_create", session_id=session, name="here", description="d")
    later = await scripted("checkpoint_create", session_id=session, name="there")

    assert made == {
        "id": ID,
        "session_id": session,
        "branch_id": first["branch_id"],
        "name": "here",
        "description": "d",
        "snapshot": IsPartialDict(
            thoughts=IsList(length=4), branches=IsList(length=4), created_at=TIME
        ),
        "created_at": TIME,
        **ALWAYS,
    }
    assert set(made["snapshot"]["thoughts"][0]) == {
        "id",
        "session_id",
        "content",
        "confidence",
        "mode",
        "parent_id",
        "branch_id",
        "created_at",
        "metadata",
    }
    listed = (await scripted("checkpoint_list", session_id=session))["checkpoints"]
    assert [one["id"] for one in listed] == [later["id"], made["id"]]
    assert listed[1] == {name: made[name] for name in listed[1]}


async def test_a_backtrack(scripted: Desk) -> None:
    first = await scripted("linear", content="begin")
    made = await scripted("checkpoint_create", session_id=first["session_id"], name="here")

    result = await scripted("backtrack", checkpoint_id=made["id"], new_direction="left")

    assert result == {
        "thought_id": ID,
        "session_id": first["session_id"],
        "checkpoint_restored": made["id"],
        "content": "elsewhere",
        "confidence": 0.9,
        "new_branch_id": None,
        "snapshot_id": ID,
        **ALWAYS,
    }
    (snapshot,) = await scripted.store.read_all(StateSnapshot, select(tables.state_snapshots))
    assert snapshot.id == result["snapshot_id"]
    assert (snapshot.snapshot_type, snapshot.state_data) == ("branch", made["snapshot"])
    assert "here" in (snapshot.description or "")


LONG = "Some task that says nothing about how it should be done, but at length."


@pytest.mark.parametrize(
    ("content", "mode", "confidence", "complexity", "others"),
    [
        ("short", "linear", 0.9, 0.2, []),
        (f"{LONG} Evaluate it.", "reflection", 0.85, 0.5, [("linear", 0.6)]),
        (f"{LONG} Be CREATIVE.", "divergent", 0.85, 0.6, [("tree", 0.5)]),
        (f"{LONG} compare them", "tree", 0.8, 0.5, [("divergent", 0.4)]),
        (f"{LONG} a multi-step thing", "got", 0.75, 0.8, [("tree", 0.6)]),
        (f"{LONG} evaluate creative options", "reflection", 0.85, 0.5, [("linear", 0.6)]),
        (LONG, "tree", 0.6, 0.8, [("got", 0.6)]),
    ],
)
async def test_a_recommended_mode(
    scripted: Desk,
    content: str,
    mode: str,
    confidence: float,
    complexity: float,
    others: list[tuple[str, float]],
) -> None:
    result = await scripted("auto", content=content)

    assert result == {
        "recommended_mode": mode,
        "confidence": confidence,
        "rationale": IsStr(),
        "complexity": complexity,
        "alternative_modes": [
            {"mode": other, "confidence": sure, "rationale": IsStr()} for other, sure in others
        ],
        "fallback_used": False,
        **ALWAYS,
    }
    assert len(scripted.completer.prompts) == (1 if content == LONG else 0)


async def test_a_mode_that_does_not_exist_falls_back_to_linear_and_says_so(desk: Desk) -> None:
    desk.script([{"recommended_mode": "magic", "confidence": 0.9, "complexity": 0.1}])

    result = await desk("auto", content=LONG)

    assert result == IsPartialDict(
        recommended_mode="linear", fallback_used=True, original_invalid_mode="magic"
    )


async def test_a_recommended_mode_can_be_begun_at_once(scripted: Desk) -> None:
    result = await scripted("auto", content=LONG, execute=True, session_id="mine")

    assert result["executed"]["tool"] == "reasoning_tree"
    assert result["executed"]["result"] == IsPartialDict(session_id="mine", content=LONG)
    assert len(await scripted.store.get_session_thoughts("mine")) == 4


async def test_a_graph(scripted: Desk) -> None:
    begun = await scripted(
        "got_init", content="root", problem="P", config={"default_k": 2, "max_depth": 2}
    )
    session, root = begun["session_id"], begun["root_node_id"]
    assert begun == {
        "session_id": ID,
        "graph_id": ID,
        "root_node_id": ID,
        "content": "root",
        "config": {"max_nodes": 100, "max_depth": 2, "default_k": 2, "prune_threshold": 0.3},
        **ALWAYS,
    }

    grown = await scripted("got_generate", session_id=session)
    assert grown == {
        "session_id": session,
        "source_node_id": root,
        "continuations": [
            {
                "node_id": ID,
                "content": "c0",
                "confidence": 0.9,
                "novelty": 0.1,
                "rationale": "x",
            },
            {"node_id": ID, "content": "c1", "confidence": 0.7, "novelty": 0.0, "rationale": ""},
        ],
        "count": 2,
        **ALWAYS,
    }
    assert "Problem: P" in scripted.completer.prompts[-1].user
    one, two = (node["node_id"] for node in grown["continuations"])

    judged = await scripted("got_score", session_id=session, node_id=one)
    assert judged == {
        "session_id": session,
        "node_id": one,
        "overall_score": 0.75,
        "breakdown": {"relevance": 0.9, "validity": 0.8, "depth": 0.5, "novelty": 0.5},
        "is_terminal_candidate": True,
        "rationale": "good",
        **ALWAYS,
    }

    joined = await scripted("got_aggregate", session_id=session, node_ids=[one, two])
    assert joined == {
        "session_id": session,
        "aggregated_node_id": ID,
        "content": "joined",
        "confidence": 0.6,
        "source_nodes": [one, two],
        "synthesis_approach": "merge",
        "conflicts_resolved": ["one"],
        **ALWAYS,
    }

    refined = await scripted(
        "got_refine", graph_id=begun["graph_id"], node_id=joined["aggregated_node_id"]
    )
    assert refined == {
        "session_id": session,
        "original_node_id": joined["aggregated_node_id"],
        "refined_node_id": ID,
        "content": "finer",
        "confidence": 0.95,
        "improvements_made": ["i"],
        "quality_delta": 0.2,
        **ALWAYS,
    }

    assert await scripted("got_state", session_id=session) == {
        "session_id": session,
        "graph_id": begun["graph_id"],
        "total_nodes": 5,
        "active_nodes": 1,
        "terminal_nodes": 0,
        "total_edges": 5,
        "max_depth": 2,
        "root_node_ids": [root],
        "active_node_ids": [refined["refined_node_id"]],
        "terminal_node_ids": [],
        **ALWAYS,
    }

    assert await scripted("got_finalize", session_id=session) == {
        "session_id": session,
        "terminal_count": 1,
        "conclusions": [
            {
                "node_id": refined["refined_node_id"],
                "content": "finer",
                "score": 0.95,
                "depth": 2,
            }
        ],
        **ALWAYS,
    }
    edges = await scripted.store.get_graph_edges(begun["graph_id"])
    assert sorted((edge.edge_type, edge.weight) for edge in edges) == [
        ("aggregates", 1.0),
        ("aggregates", 1.0),
        ("generates", 0.7),
        ("generates", 0.9),
        ("refines", 0.95),
    ]


async def test_pruning_cuts_weak_ends_and_what_becomes_one(desk: Desk) -> None:
    begun = await desk("got_init", content="root")
    session = begun["session_id"]

    async def grow(node: str | None, *scores: float) -> list[str]:
        own = [{"thought": f"t{score}", "confidence": score} for score in scores]
        extra = {"node_id": node} if node else {}
        made = await desk("got_generate", session_id=session, continuations=own, **extra)
        return [one["node_id"] for one in made["continuations"]]

    weak, strong = await grow(None, 0.2, 0.9)
    (weaker,) = await grow(weak, 0.1)
    (kept,) = await grow(strong, 0.3)

    result = await desk("got_prune", session_id=session)

    assert result == {
        "session_id": session,
        "pruned_count": 2,
        "remaining_count": 3,
        "threshold_used": 0.3,
        "pruned_node_ids": [weaker, weak],
        "backend": "host",
        "next": IsList(length=...),
    }
    left = {node.id for node in await desk.store.get_graph_nodes(begun["graph_id"])}
    assert left == {begun["root_node_id"], strong, kept}
    assert len(await desk.store.get_graph_edges(begun["graph_id"])) == 2


async def test_every_result_fits_the_schema_it_was_promised_with(scripted: Desk) -> None:
    begun = await scripted("got_init", content="root", session_id="s")
    grown = await scripted("got_generate", session_id="s")
    nodes = [node["node_id"] for node in grown["continuations"]]
    branches = await scripted("tree", content="x", session_id="s")
    point = await scripted("checkpoint_create", session_id="s", name="p")
    calls: dict[str, dict[str, Any]] = {
        "linear": {"content": "x", "session_id": "s", "confidence": 3},
        "tree": {"content": "x", "session_id": "s"},
        "tree_focus": {"session_id": "s", "branch_id": branches["branch_id"]},
        "tree_list": {"session_id": "s"},
        "tree_complete": {"branch_id": branches["child_branches"][0]["id"]},
        "divergent": {"content": "x", "session_id": "s", "branch_id": branches["branch_id"]},
        "reflection": {"content": "x", "session_id": "s"},
        "reflection_evaluate": {"session_id": "s"},
        "checkpoint_create": {"session_id": "s", "name": "n"},
        "checkpoint_list": {"session_id": "s"},
        "auto": {"content": "x", "execute": True, "session_id": "s"},
        "got_init": {"content": "other"},
        "got_generate": {"graph_id": begun["graph_id"]},
        "got_score": {"session_id": "s", "node_id": nodes[0]},
        "got_aggregate": {"session_id": "s", "node_ids": nodes[:2]},
        "got_refine": {"session_id": "s", "node_id": nodes[2]},
        "got_prune": {"session_id": "s", "threshold": 0.01},
        "got_state": {"session_id": "s"},
        "got_finalize": {"session_id": "s"},
        "backtrack": {"checkpoint_id": point["id"]},
        "session_list": {},
        "session_get": {"session_id": "s"},
        "session_search": {"query": "step"},
        "session_export": {"session_id": "s"},
        "session_fork": {"session_id": "s"},
        "session_conclude": {"session_id": "s", "conclusion": "done"},
        "session_reopen": {"session_id": "s"},
        "session_delete": {"session_id": "s"},
    }
    assert {f"reasoning_{name}" for name in calls} == set(TOOLS)

    for name, arguments in calls.items():
        tool = TOOLS[f"reasoning_{name}"]
        jsonschema.validate(
            {**arguments, "confidence": 1} if name == "linear" else arguments,
            input_schema(tool.params),
        )
        shown = await scripted.reasoner.call(tool.name, arguments)
        data, schema = result_data(shown), output_schema(tool.result)
        jsonschema.validate(data, schema)
        assert schema["additionalProperties"] is False
        said = json.loads(result_text(shown))
        assert said == (next(iter(data.values())) if isinstance(said, list) else data)
        assert isinstance(said, list) == name.endswith(("tree_list", "checkpoint_list"))


def test_schemas_say_all_and_refer_to_nothing() -> None:
    for tool in TOOLS.values():
        for schema in (input_schema(tool.params), output_schema(tool.result)):
            text = json.dumps(schema)
            assert "$ref" not in text
            assert '"title": "' not in text
            jsonschema.Draft202012Validator.check_schema(schema)


def test_the_advertised_arguments_are_the_known_ones() -> None:
    linear = input_schema(TOOLS["reasoning_linear"].params)
    tree = input_schema(TOOLS["reasoning_tree"].params)

    assert linear["required"] == ["content"]
    assert linear["properties"]["confidence"] == {
        "type": "number",
        "default": 0.8,
        "minimum": 0,
        "maximum": 1,
        "description": IsStr(),
    }
    assert tree["properties"]["num_branches"] == IsPartialDict(default=3, minimum=2, maximum=4)
    assert tree["properties"]["cross_refs"]["items"]["required"] == ["to_branch", "type"]
    known = {
        "reasoning_reflection": {"max_iterations": 3, "quality_threshold": 0.8},
        "reasoning_divergent": {"num_perspectives": 3, "confidence": 0.7},
        "reasoning_tree_complete": {"completed": True},
    }
    for name, defaults in known.items():
        properties = input_schema(TOOLS[name].params)["properties"]
        assert {one: properties[one]["default"] for one in defaults} == defaults


def test_the_schemas_of_results_are_two_thirds_of_the_list_and_can_be_left_out() -> None:
    def size(*, output_schemas: bool) -> int:
        tools = listed_tools("full", output_schemas=output_schemas)
        assert {tool.output_schema is not None for tool in tools} == {output_schemas}
        return len(json.dumps([one.model_dump(by_alias=True, exclude_none=True) for one in tools]))

    assert size(output_schemas=False) < size(output_schemas=True) / 2
