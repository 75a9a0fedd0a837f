"""Reads suites from YAML and JSON files; every problem is reported with its line."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, cast

import yaml
from pydantic import ValidationError

from plait.errors import ConfigError, Problem
from plait.verification.checks import check_problem
from plait.verification.suite import Caps, Case, CaseSettings, Suite

_PLACEHOLDER = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_SUITE_KEYS = frozenset({"name", "defaults", "matrix", "caps", "cases", "$schema"})

Path_ = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class _Entry:
    """A case as it is written, with the values of its row filled in."""

    place: Path_
    fields: dict[str, Any]
    row: str | None = None
    """File and line of the row, if it has one."""


class _Source:
    """A parsed file, and the line of each of its values."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._problems: dict[tuple[str, str], list[str]] = {}
        self._lines: dict[Path_, int] = {}
        self.value = self._load()

    def _load(self) -> Any:
        try:
            # JSON is YAML, and its lines are found the same way.
            text = self.path.read_text(encoding="utf-8")
            node = yaml.compose(text, Loader=yaml.SafeLoader)
            return None if node is None else self._value(node, ())
        except OSError as error:
            self.add((), f"cannot be read: {error.strerror}")
        except UnicodeDecodeError:
            self.add((), "is not UTF-8")
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark
            self._lines[("!",)] = 1 if mark is None else mark.line + 1
            self.add(("!",), f"is not YAML: {error.problem}", show_path=False)
        except yaml.YAMLError:
            self.add((), "is not YAML")
        return None

    def _value(self, node: yaml.Node, path: Path_) -> Any:
        self._lines[path] = node.start_mark.line + 1
        match node:
            case yaml.MappingNode():
                found: dict[str, Any] = {}
                for key_node, value_node in node.value:
                    key = str(key_node.value)
                    if key in found:
                        self._lines[(*path, key)] = key_node.start_mark.line + 1
                        self.add((*path, key), "is there twice")
                    found[key] = self._value(value_node, (*path, key))
                return found
            case yaml.SequenceNode():
                return [self._value(item, (*path, n)) for n, item in enumerate(node.value)]
            case _:
                return yaml.SafeLoader("").construct_object(node)  # pyright: ignore[reportUnknownMemberType]

    def add(
        self, path: Path_, message: str, *, row: str | None = None, show_path: bool = True
    ) -> None:
        """Note a problem of the value at a path, with the line of its row or nearest parent."""
        where = ".".join(map(str, path)) if show_path else ""
        nearest = path
        while nearest not in self._lines and nearest:
            nearest = nearest[:-1]
        line = self._lines.get(nearest)
        place = str(self.path) if line is None else f"{self.path}:{line}"
        self._problems.setdefault((where, message), []).append(row or place)

    @property
    def problems(self) -> list[Problem]:
        """All problems; one that many rows have is named once."""
        found: list[Problem] = []
        for (where, message), places in self._problems.items():
            rows = len(places) - 1
            others = " (and in another row)" if rows == 1 else f" (and in {rows} more rows)"
            text = f"{message}{others}" if rows else message
            found.append(Problem(file=places[0], path=where, code="invalid_suite", message=text))
        return found


def read_suite(path: str | Path) -> Suite:
    """Read a suite, with its defaults, matrix and rows filled in.

    Raises:
        ConfigError: Anything is wrong; `problems` lists all of it, with lines.
    """
    source = _Source(Path(path))
    content = cast("dict[str, Any]", source.value) if isinstance(source.value, dict) else None
    cases: dict[str, Case] = {}
    caps = Caps()
    if content is None and not source.problems:
        source.add((), "is not a suite: it needs `cases`")
    elif content is not None:
        for key in content.keys() - _SUITE_KEYS:
            source.add((key,), f"is not a key of a suite: {', '.join(sorted(_SUITE_KEYS))}")
        if not isinstance(content.get("cases"), list):
            source.add(("cases",), "is missing, or not a list")
        for key in ("defaults", "matrix"):
            if not isinstance(content.get(key, {}), dict):
                source.add((key,), "is not an object")
        content = _check_settings(source, content)
        for entry in _entries(source, content):
            for case in _cases(source, entry, content):
                if case.name in cases:
                    text = f"two cases have the name {case.name!r}"
                    source.add((*entry.place, "name"), text, row=entry.row)
                cases[case.name] = case
        try:
            caps = Caps.model_validate(content.get("caps") or {})
        except ValidationError as error:
            for one in error.errors(include_url=False, include_context=False):
                source.add(("caps", *one["loc"]), one["msg"])
    if problems := source.problems:
        raise ConfigError.from_problems(problems)
    return Suite(
        name=str((content or {}).get("name") or Path(path).stem),
        cases=tuple(cases.values()),
        caps=caps,
        folder=Path(path).parent.resolve(),
    )


def suite_schema() -> dict[str, Any]:
    """Return the JSON Schema of suite files, for editors."""
    case = Case.model_json_schema(ref_template="#/$defs/{model}")
    definitions = case.pop("$defs", {})
    settings = CaseSettings.model_json_schema(ref_template="#/$defs/{model}")
    definitions |= settings.pop("$defs", {})
    definitions |= {"Case": case, "CaseSettings": settings, "Caps": Caps.model_json_schema()}
    # What a case requires may come from the defaults or from its row.
    case["required"] = ["name"]
    rows = {
        "type": "object",
        "properties": {"rows": {"type": "string"}, "case": {"$ref": "#/$defs/Case"}},
        "required": ["rows", "case"],
        "additionalProperties": False,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A plait suite",
        "type": "object",
        "properties": {
            "$schema": {"type": "string"},
            "name": {"type": "string"},
            "defaults": {"$ref": "#/$defs/CaseSettings"},
            "matrix": {"type": "object", "additionalProperties": {"type": "array"}},
            "caps": {"$ref": "#/$defs/Caps"},
            "cases": {"type": "array", "items": {"anyOf": [{"$ref": "#/$defs/Case"}, rows]}},
        },
        "required": ["cases"],
        "additionalProperties": False,
        "$defs": definitions,
    }


def _entries(source: _Source, content: Mapping[str, Any]) -> Iterator[_Entry]:
    """Yield each case as it is written, those of rows filled in."""
    listed: object = content.get("cases")
    for number, entry in enumerate(cast("list[Any]", listed) if isinstance(listed, list) else []):
        place: Path_ = ("cases", number)
        if not isinstance(entry, dict):
            source.add(place, "is not an object")
            continue
        fields = cast("dict[str, Any]", entry)
        if "rows" not in fields:
            yield _Entry(place, fields)
            continue
        if sorted(fields) != ["case", "rows"] or not isinstance(fields["case"], dict):
            text = "rows needs `rows`, a CSV or JSONL file, and `case`, and nothing else"
            source.add(place, text)
            continue
        file = source.path.parent / str(fields["rows"])
        try:
            rows = list(read_rows(file))
        except (OSError, ValueError) as error:
            source.add((*place, "rows"), f"{file} cannot be read: {error}")
            continue
        for row_number, (line, row) in enumerate(rows, start=1):
            where = f"{file}:{line}"
            if isinstance(row, str):
                source.add((*place, "rows"), row, row=where)
                continue
            try:
                filled = _fill_in(fields["case"], row)
            except KeyError as missing:
                text = f"there is no column {missing.args[0]!r}"
                source.add((*place, "case"), text, row=where)
                continue
            filled.setdefault("name", f"{file.stem}-{row_number}")
            yield _Entry((*place, "case"), filled, where)


def read_rows(file: Path) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """Yield the rows of a CSV or JSON Lines file with their lines, or what is wrong with them.

    Raises:
        OSError: It cannot be read.
        ValueError: It is not UTF-8.
    """
    # Only the line breaks of the format count: texts contain others, such as U+2028.
    with file.open(encoding="utf-8-sig", newline="") as opened:
        text = opened.read()
    if file.suffix != ".csv":
        for number, line in enumerate(text.split("\n"), start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                yield number, f"is not JSON: {error.msg}, column {error.colno}"
            else:
                is_object = isinstance(row, dict)
                yield number, cast("dict[str, Any]", row) if is_object else "is not an object"
        return
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    last = 0
    names: list[str] = []
    try:
        for values in reader:
            first, last = last + 1, reader.line_num
            if not names:
                names = values
            elif len(values) == len(names):
                yield first, dict(zip(names, values, strict=True))
            elif values:
                yield first, f"the row has {len(values)} values for {len(names)} columns"
    except csv.Error as error:
        yield last + 1, f"is not CSV: {error}"


def _fill_in(value: Any, row: Mapping[str, Any]) -> Any:
    """Replace `{{column}}`; a text that is nothing else keeps the type of the column."""
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
        return {key: _fill_in(item, row) for key, item in pairs}
    if isinstance(value, list):
        return [_fill_in(item, row) for item in cast("list[Any]", value)]
    if not isinstance(value, str):
        return value
    if (whole := _PLACEHOLDER.fullmatch(value)) is not None:
        return row[whole[1]]
    return _PLACEHOLDER.sub(lambda found: str(row[found[1]]), value)


def _cases(source: _Source, entry: _Entry, content: Mapping[str, Any]) -> Iterator[Case]:
    """Yield the cases of an entry: one, or one for each combination of the matrix."""
    defaults, matrix, fields = content["defaults"], content["matrix"], entry.fields
    combinations = product(*(cast("list[Any]", values) for values in matrix.values()))
    for values in combinations:
        chosen = dict(zip(matrix, values, strict=True))
        merged: dict[str, Any] = {**defaults, **chosen, **fields}
        if tags := [*_texts(defaults.get("tags")), *_texts(fields.get("tags"))]:
            merged["tags"] = list(dict.fromkeys(tags))
        if chosen:
            suffix = ",".join(_label(key, value) for key, value in chosen.items())
            merged["name"] = f"{merged.get('name')}[{suffix}]"
        faults = _faults(Case, merged)
        checks: Any = merged.get("checks")
        listed = cast("list[Any]", checks) if isinstance(checks, list) else []
        for number, check in enumerate(listed):
            if isinstance(check, dict) and (
                problem := check_problem(cast("dict[str, Any]", check))
            ):
                faults["checks", number] = problem
        for path, message in faults.items():
            source.add((*entry.place, *path), message, row=entry.row)
        if faults:
            return
        yield Case.model_validate(merged)


def _label(key: str, value: Any) -> str:
    """Return a value of the matrix for the name of a case: `engine=langchain`, `limits.turns=2`."""
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
        return ",".join(_label(f"{key}.{name}", inner) for name, inner in pairs)
    return f"{key}={value}"


def _check_settings(source: _Source, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a suite with its defaults and matrix, without the parts that are wrong.

    Their problems are reported once, at their own lines, and not for each case.
    """
    settings: dict[str, dict[str, Any]] = {}
    for part in ("defaults", "matrix"):
        found: object = content.get(part)
        settings[part] = dict(cast("dict[str, Any]", found)) if isinstance(found, dict) else {}
    wrong: set[Path_] = set()
    for path, message in _faults(CaseSettings, settings["defaults"]).items():
        source.add(("defaults", *path), message)
        wrong.add(("defaults", path[0]))
    for key, values in settings["matrix"].items():
        if key not in CaseSettings.model_fields or not isinstance(values, list) or not values:
            source.add(("matrix", key), "is not a list of values of a setting of cases")
            wrong.add(("matrix", key))
            continue
        for number, value in enumerate(cast("list[Any]", values)):
            for path, message in _faults(CaseSettings, {key: value}).items():
                source.add(("matrix", key, number, *path[1:]), message)
                wrong.add(("matrix", key))
    kept = {
        part: {key: value for key, value in found.items() if (part, key) not in wrong}
        for part, found in settings.items()
    }
    return {**content, **kept}


_CONTENT = frozenset({"question", "conversation", "checks", "template", "rubric"})
"""The fields of which a case must have some."""


def _faults(kind: type[CaseSettings], values: Mapping[str, Any]) -> dict[Path_, str]:
    """Return what is wrong with settings, and also with all of them together."""
    try:
        kind.model_validate(values)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False)
    else:
        return {}
    faults = {one["loc"]: one["msg"].removeprefix("Value error, ") for one in found}
    wrong = {str(path[0]) for path in faults if path}
    if wrong & values.keys() and not wrong & _CONTENT:
        # What concerns several fields is checked only where each of them is right.
        rest = {key: value for key, value in values.items() if key not in wrong}
        faults |= {path: text for path, text in _faults(kind, rest).items() if not path}
    return faults


def _texts(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value or [])
