"""How far a judge agrees with labels by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from plait.errors import ConfigError
from plait.verification.read import read_rows
from plait.verification.results import CaseResult
from plait.verification.statistics import Interval, cohen_kappa, wilson_interval

_WORDS: Final = {
    **dict.fromkeys(("true", "yes", "1", "pass", "passed"), True),
    **dict.fromkeys(("false", "no", "0", "fail", "failed"), False),
}
_WHICH: Final = ("case", "model", "repeat")
"""The columns that say which runs a label is about; all others are labels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How far one judge agrees with the labels about one thing."""

    judge: str
    label: str
    """A trait, `passed`, or a field of the result that is true or false."""
    labels: int
    """Labels that the judge decided about, too."""
    agreed: int
    interval: Interval
    """Of the share that agreed."""
    kappa: float
    """Agreement beyond chance: 1 is always, 0 as often as by chance."""
    too_kind: tuple[str, ...]
    """Runs that the judge let through, against the label."""
    too_strict: tuple[str, ...]


def read_labels(path: str | Path) -> list[dict[str, Any]]:
    """Read labels from a CSV or JSON Lines file: `case`, perhaps `model` and `repeat`, and labels.

    Raises:
        ConfigError: The file cannot be read, or a label is neither true nor false.
    """
    try:
        rows = list(read_rows(Path(path)))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    labels: list[dict[str, Any]] = []
    for line, row in rows:
        where = f"{path}:{line}"
        if isinstance(row, str):
            raise ConfigError(f"{where}: {row}")
        if not row.get("case"):
            raise ConfigError(f"{where}: there is no `case`")
        which = {name: row[name] for name in _WHICH if row.get(name) not in (None, "")}
        found = {name: _truth(row[name], name, where) for name in row if name not in _WHICH}
        labels.append(which | {name: value for name, value in found.items() if value is not None})
    return labels


def judge_agreement(
    results: Sequence[CaseResult], labels: Sequence[Mapping[str, Any]]
) -> list[Agreement]:
    """Compare what judges decided with labels, for each judge and label.

    Raises:
        ConfigError: No label is about any of the results.
    """
    pairs: dict[tuple[str, str], list[tuple[str, bool, bool]]] = {}
    for row in labels:
        for result in results:
            repeat = str(row.get("repeat", result.repeat))
            if row["case"] != result.case or repeat != str(result.repeat):
                continue
            if "model" in row and str(row["model"]) not in result.model:
                continue
            for name in row.keys() - set(_WHICH):
                decided = result.traits.get(name, getattr(result, name, None))
                if name == "passed":
                    decided = result.outcome == "passed"
                # What could not be decided says nothing about its judge.
                if isinstance(decided, bool) and result.outcome != "error":
                    run = f"{result.case} #{result.repeat}"
                    found = pairs.setdefault((result.judge or result.model, name), [])
                    found.append((run, decided, row[name]))
    if not pairs:
        raise ConfigError("no label is about a run of the report that a judge decided")
    agreements: list[Agreement] = []
    for (judge, name), decisions in sorted(pairs.items()):
        agreed = sum(decided == label for _, decided, label in decisions)
        agreements.append(
            Agreement(
                judge=judge,
                label=name,
                labels=len(decisions),
                agreed=agreed,
                interval=wilson_interval(agreed, len(decisions)),
                kappa=cohen_kappa([one[1] for one in decisions], [one[2] for one in decisions]),
                too_kind=tuple(run for run, decided, label in decisions if decided and not label),
                too_strict=tuple(run for run, decided, label in decisions if label and not decided),
            )
        )
    return agreements


def _truth(value: Any, name: str, where: str) -> bool | None:
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return value
    word = _WORDS.get(str(value).strip().casefold())
    if word is None:
        raise ConfigError(f"{where}: {name} is {value!r}, not true or false")
    return word
