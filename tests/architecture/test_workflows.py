"""The workflows and hooks are YAML, and call only what this repository has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from tests.architecture.test_tree import MACHINE_PATH, REGISTRY, REPOSITORY

WORKFLOWS = sorted((REPOSITORY / ".github" / "workflows").glob("*.yml"))
PINNED = re.compile(r"[\w-]+/[\w-]+@(?:release/)?v\d+")


def steps_of(workflow: Path) -> list[dict[str, Any]]:
    """Return the steps of every job."""
    jobs = cast("dict[str, Any]", yaml.safe_load(workflow.read_text("utf-8"))["jobs"])
    return [step for job in jobs.values() for step in job["steps"]]


def test_there_are_workflows_for_tests_docs_and_releases() -> None:
    assert [path.stem for path in WORKFLOWS] == ["ci", "docs", "nightly", "release"]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_calls_only_make_targets_that_exist(workflow: Path) -> None:
    makefile = (REPOSITORY / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE))
    commands = [step["run"] for step in steps_of(workflow) if "run" in step]

    called = {target for command in commands for target in re.findall(r"\bmake (\S+)", command)}

    assert called
    assert called <= targets


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_pins_the_major_version_of_its_actions(workflow: Path) -> None:
    actions = [step["uses"] for step in steps_of(workflow) if "uses" in step]

    assert [action for action in actions if not PINNED.fullmatch(action)] == []


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_names_no_registry_and_no_path_of_a_machine(workflow: Path) -> None:
    text = workflow.read_text("utf-8")

    assert REGISTRY.findall(text) == []
    assert MACHINE_PATH.findall(text) == []


def test_hooks_run_the_tools_of_the_environment_of_the_project() -> None:
    settings = yaml.safe_load((REPOSITORY / ".pre-commit-config.yaml").read_text("utf-8"))
    hooks = [hook for repository in settings["repos"] for hook in repository["hooks"]]

    assert {repository["repo"] for repository in settings["repos"]} == {"local"}
    assert {hook["entry"].split()[0] for hook in hooks} == {".venv/bin/ruff"}
