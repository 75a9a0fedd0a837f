"""EmbeddingCheck with a sentence model on this machine; `make test-embeddings` runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from plait.verification.stages import similarity
from tests.integration.verification.suites import Watched, suite_in

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300), pytest.mark.filterwarnings("ignore")]


async def test_texts_of_the_same_meaning_are_similar() -> None:
    near = await similarity("The capital of France is Paris.", "Paris is France's capital city.")
    far = await similarity("The capital of France is Paris.", "Bananas are rich in potassium.")
    assert near > 0.85 > 0.4 > far


@pytest.mark.parametrize(
    ("said", "outcome"),
    [("Paris is the capital of France", "passed"), ("Rome is the capital of Italy", "failed")],
)
async def test_a_field_that_means_the_same_passes(said: str, outcome: str, tmp_path: Path) -> None:
    (tmp_path / "judge.json").write_text(json.dumps([json.dumps({"fact": said})]))
    field = {"name": "fact", "expected": "The capital of France is Paris"}
    case = {"name": "capital", "template": [field], "embedding_check_enabled": True}
    suite = suite_in(tmp_path, [case], [said], servers={}, judge="scripted:judge.json")
    (result,) = (await Watched(suite).run()).results
    assert result.outcome == outcome
    verified = next(stage for stage in result.stages if stage.name == "VerifyTemplate")
    assert verified.outcome == ("overruled" if outcome == "passed" else "failed")
    assert (result.embedding_similarity["fact"] >= 0.85) is (outcome == "passed")
