"""Every tool answers with exactly the fields it promises, and they mean what they say."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from dirty_equals import IsFloat, IsList, IsPartialDict, IsStr
from sqlalchemy import select

from plait.errors import RefusedError
from plait.reasoning.results import result_data, result_text
from plait.reasoning.serving.mcp_server import input_schema, listed_tools, output_schema
from plait.reasoning.solving.problem import EXAMPLES
from plait.reasoning.storage import tables
from plait.reasoning.tool_registry import TOOLS
from plait.reasoning.values import Invocation, StateSnapshot
from tests.unit.reasoning.conftest import Desk

pytestmark = pytest.mark.anyio

ID = IsStr(regex=r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TIME = IsStr(regex=r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00")
ANY_LIST = IsList(length=...)
ALWAYS = {"backend": "scripted", "next": ANY_LIST}

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


def check(result: dict[str, Any], names: str, **values: Any) -> None:
    """Hold a result to these fields: ids and times by their form, others by their value."""
    forms = {
        **dict.fromkeys(names.split(), None),
        **values,
        "backend": "scripted",
        "next": ANY_LIST,
    }
    for name in forms.keys() - values.keys() - {"backend", "next"}:
        forms[name] = TIME if name.endswith("_at") else ID
    assert result == forms


async def test_a_linear_step(scripted: Desk) -> None:
    first = await scripted("linear", content="begin")
    session = first["session_id"]
    second = await scripted("linear", content="go on", session_id=session, confidence=0.95)

    own = {"content": "next step", "confidence": 0.9}
    check(first, "thought_id session_id", **own, previous_thought=None)
    check(second, "thought_id session_id", **own, previous_thought=first["thought_id"])
    assert "- next step" in scripted.completer.prompts[1].user
    # The higher confidence is kept, and the model's own is told.
    stored = await scripted.store.get_session_thoughts(session)
    assert [(one.mode, one.confidence, one.parent_id) for one in stored] == [
        ("linear", 0.9, None),
        ("linear", 0.95, first["thought_id"]),
    ]


async def test_a_tree(scripted: Desk) -> None:
    result = await scripted("tree", content="which way?")
    session = result["session_id"]

    check(
        result,
        "session_id branch_id thought_id",
        content="which way?",
        confidence=0.8,
        child_branches=[
            {"id": ID, "name": name, "confidence": sure, "rationale": why}
            for name, sure, why in (
                ("Option 1: short", 0.5, "r0"),
                (f"Option 2: {'ä' * 27}...", 0.7, "r1"),
                ("Option 3: third", 0.2, "r2"),
            )
        ],
        recommended_branch_index=1,
        parent_branch=None,
        cross_refs_created=0,
    )
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
    there, session = first["child_branches"][0]["id"], {"session_id": first["session_id"]}
    refs = [{"to_branch": first["branch_id"], "type": "SUPPORTS", "reason": "because"}]

    result = await scripted(
        "tree", content="from there", branch_id=there, num_branches=2, cross_refs=refs, **session
    )

    assert result == IsPartialDict(parent_branch=there, cross_refs_created=1)
    assert len(result["child_branches"]) == 2
    branch = await scripted.store.get_branch(result["branch_id"])
    assert branch is not None
    assert branch.name == "from there"
    (ref,) = await scripted.store.get_session_cross_refs(first["session_id"])
    assert (ref.from_branch_id, ref.to_branch_id) == (branch.id, first["branch_id"])
    assert (ref.ref_type, ref.strength, ref.reason) == ("supports", 1.0, "because")


async def test_several_points_of_view(scripted: Desk) -> None:
    result = await scripted("divergent", content="hm", num_perspectives=2, force_rebellion=True)

    views = [("p0", 0.2, 0.8, ["a"]), ("p1", 0.8, 0.4, [])]
    names = ("content", "novelty", "viability", "assumptions_challenged")
    check(
        result,
        "session_id thought_id synthesis_thought_id",
        perspectives=[{"thought_id": ID, **dict(zip(names, one, strict=True))} for one in views],
        synthesis="together",
        total_novelty_score=0.5,
        most_viable_perspective=0,
        most_novel_perspective=1,
    )
    assert "must contradict what everybody believes" in scripted.completer.prompts[0].system
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
    await scripted("divergent", content="hm", challenge_assumptions=True)
    assert "take each of them away" in scripted.completer.prompts[1].system


async def test_a_reflection(scripted: Desk) -> None:
    first = await scripted("linear", content="begin")
    original = first["thought_id"]

    result = await scripted("reflection", thought_id=original, include_chain=True)

    found = {"strengths": ["s"], "weaknesses": ["w"], "recommendations": ["r"]}
    check(
        result,
        "session_id reflection_thought_id",
        original_thought_id=original,
        analysis="fine",
        **found,
        quality_score=0.9,
        improved_thought={"thought_id": ID, "content": "better", "confidence": 0.7},
        iterations_performed=1,
        quality_improved=False,
    )
    assert "- [linear] (confidence: 0.90) next step" in scripted.completer.prompts[-1].user
    noted = await scripted.store.get_thought(result["reflection_thought_id"])
    assert noted is not None
    assert noted.parent_id == original
    assert noted.metadata == {**found, "quality_score": 0.9, "iterations": 1}


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
    session = (await scripted("linear", content="begin"))["session_id"]
    await scripted("tree", content="x", session_id=session, num_branches=2)

    check(
        await scripted("reflection_evaluate", session_id=session),
        "session_id",
        total_thoughts=4,
        average_confidence=IsFloat(approx=(0.9 + 0.8 + 0.5 + 0.7) / 4),
        mode_distribution={"linear": 1, "tree": 3},
        coherence_score=IsFloat(approx=(2 / 3 + (0.9 + 0.7 + 0.8) / 3) / 2),
        recommendation="The quality of the reasoning is acceptable.",
    )
    for text in ("low", "lower", "lowest"):
        own = {"analysis": text, "quality_score": 0.1}
        await scripted("reflection", content=text, session_id=session, reflection=own)
    low = await scripted("reflection_evaluate", session_id=session)
    assert low["recommendation"].startswith("Review the thoughts of low confidence")
    await scripted("got_init", content="root", session_id="graph")
    with pytest.raises(RefusedError, match="no thoughts to evaluate"):
        await scripted("reflection_evaluate", session_id="graph")


async def test_a_checkpoint(scripted: Desk) -> None:
    first = await scripted("tree", content="x")
    session = first["session_id"]

    made = await scripted("checkpoint_create", session_id=session, name="here", description="d")
    later = await scripted("checkpoint_create", session_id=session, name="there")

    check(
        made,
        "id session_id created_at",
        branch_id=first["branch_id"],
        name="here",
        description="d",
        snapshot=IsPartialDict(
            thoughts=IsList(length=4), branches=IsList(length=4), created_at=TIME
        ),
    )
    names = "id session_id content confidence mode parent_id branch_id created_at metadata"
    assert set(made["snapshot"]["thoughts"][0]) == set(names.split())
    listed = (await scripted("checkpoint_list", session_id=session))["checkpoints"]
    assert [one["id"] for one in listed] == [later["id"], made["id"]]
    assert listed[1] == {name: made[name] for name in listed[1]}


async def test_a_backtrack(scripted: Desk) -> None:
    first = await scripted("linear", content="begin")
    made = await scripted("checkpoint_create", session_id=first["session_id"], name="here")

    result = await scripted("backtrack", checkpoint_id=made["id"], new_direction="left")

    own = {"content": "elsewhere", "confidence": 0.9, "checkpoint_restored": made["id"]}
    check(result, "thought_id session_id snapshot_id", **own, new_branch_id=None)
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
    config = {"default_k": 2, "max_depth": 2}
    begun = await scripted("got_init", content="root", problem="P", config=config)
    session, root, graph = begun["session_id"], begun["root_node_id"], begun["graph_id"]
    limits = {"max_nodes": 100, "prune_threshold": 0.3, **config}
    check(begun, "session_id graph_id root_node_id", content="root", config=limits)

    grown = await scripted("got_generate", session_id=session)
    names = ("content", "confidence", "novelty", "rationale")
    values = [("c0", 0.9, 0.1, "x"), ("c1", 0.7, 0.0, "")]
    made = [{"node_id": ID, **dict(zip(names, one, strict=True))} for one in values]
    check(grown, "session_id", source_node_id=root, continuations=made, count=2)
    assert "Problem: P" in scripted.completer.prompts[-1].user
    one, two = (node["node_id"] for node in grown["continuations"])

    check(
        await scripted("got_score", session_id=session, node_id=one),
        "session_id",
        node_id=one,
        overall_score=0.75,
        breakdown={"relevance": 0.9, "validity": 0.8, "depth": 0.5, "novelty": 0.5},
        is_terminal_candidate=True,
        rationale="good",
    )

    joined = await scripted("got_aggregate", session_id=session, node_ids=[one, two])
    own = {"synthesis_approach": "merge", "conflicts_resolved": ["one"], "source_nodes": [one, two]}
    check(joined, "session_id aggregated_node_id", content="joined", confidence=0.6, **own)

    original = joined["aggregated_node_id"]
    refined = await scripted("got_refine", graph_id=graph, node_id=original)
    own = {"improvements_made": ["i"], "quality_delta": 0.2, "original_node_id": original}
    check(refined, "session_id refined_node_id", content="finer", confidence=0.95, **own)

    last = refined["refined_node_id"]
    check(
        await scripted("got_state", session_id=session),
        "session_id graph_id",
        total_nodes=5,
        active_nodes=1,
        terminal_nodes=0,
        total_edges=5,
        max_depth=2,
        root_node_ids=[root],
        active_node_ids=[last],
        terminal_node_ids=[],
    )
    check(
        await scripted("got_finalize", session_id=session),
        "session_id",
        terminal_count=1,
        conclusions=[{"node_id": last, "content": "finer", "score": 0.95, "depth": 2}],
    )
    edges = await scripted.store.get_graph_edges(graph)
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
        "solve": {"content": "who works?", "problem": EXAMPLES["variables"], "session_id": "s"},
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
