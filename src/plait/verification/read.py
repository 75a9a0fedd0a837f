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
from typing import Annotated, Any, cast

import yaml
from annotated_types import Len
from pydantic import BaseModel, Field, ValidationError

from plait._support.suggestions import did_you_mean
from plait.errors import ConfigError, Problem
from plait.verification.checks import check_problem
from plait.verification.suite import Caps, Case, CaseSettings, Suite

_PLACEHOLDER = re.compile(r"\{\{\s*(\w+)\s*\}\}")

MAX_REPEATED_VALUES = 100_000
"""Values that aliases repeat; no suite that a person wrote comes near it."""

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
        self._nodes = set[yaml.Node]()
        self._around: list[yaml.Node] = []
        self._repeated = 0
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
            self.add(("!",), f"cannot be read as YAML: {error.problem}", show_path=False)
        except RecursionError:
            self.add((), "is nested too deeply")
        except yaml.YAMLError:
            self.add((), "cannot be read as YAML")
        return None

    def _value(self, node: yaml.Node, path: Path_) -> Any:
        self._lines[path] = node.start_mark.line + 1
        # Aliases make a graph of the file: a few lines could be values without end.
        if node in self._around:
            raise yaml.MarkedYAMLError(problem="it contains itself", problem_mark=node.start_mark)
        self._repeated += node in self._nodes
        if self._repeated > MAX_REPEATED_VALUES:
            text = f"aliases repeat more than {MAX_REPEATED_VALUES:,} values"
            raise yaml.MarkedYAMLError(problem=text, problem_mark=node.start_mark)
        self._nodes.add(node)
        self._around.append(node)
        value = self._plain_value(node, path)
        self._around.pop()
        return value

    def _plain_value(self, node: yaml.Node, path: Path_) -> Any:
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


class _SuiteFile(BaseModel, extra="forbid"):
    """A suite as it is written; each of its cases is checked when it is whole."""

    schema_: str | None = Field(None, alias="$schema")
    name: str | None = None
    defaults: CaseSettings = CaseSettings()
    matrix: dict[str, Annotated[list[Any], Len(1)]] = Field({})
    caps: Caps = Caps()
    cases: list[Any]


class _Rows(BaseModel, extra="forbid"):
    """Cases from the rows of a CSV or JSON Lines file."""

    rows: str
    case: Case


class _DescribedSuite(_SuiteFile):
    """A suite with the form of its cases, for editors."""

    cases: list[Case | _Rows]


def read_suite(path: str | Path) -> Suite:
    """Read a suite, with its defaults, matrix and rows filled in.

    Raises:
        ConfigError: Anything is wrong; `problems` lists all of it, with lines.
    """
    source = _Source(Path(path))
    content: dict[str, Any] = {}
    if isinstance(source.value, dict):
        content = cast("dict[str, Any]", source.value)
    elif not source.problems:
        source.add((), "is not a suite: it needs `cases`")
    defaults, matrix = (
        cast("dict[str, Any]", content[part]) if isinstance(content.get(part), dict) else {}
        for part in ("defaults", "matrix")
    )
    faults = _faults(_SuiteFile, content) if content else {}
    for key, values in matrix.items():
        listed = cast("list[Any]", values) if isinstance(values, list) else []
        for number, value in enumerate(listed):
            for place, text in _faults(CaseSettings, {key: value}).items():
                faults["matrix", key, number, *place[1:]] = text
    for place, text in faults.items():
        source.add(place, text)
    # What is wrong in them is reported once, at its own line, and not for each case.
    wrong = {place[:2] for place in faults}
    defaults = {key: one for key, one in defaults.items() if ("defaults", key) not in wrong}
    matrix = {key: one for key, one in matrix.items() if ("matrix", key) not in wrong}
    cases: dict[str, Case] = {}
    for entry in _entries(source, content):
        for case in _cases(source, entry, defaults, matrix):
            if case.name in cases:
                text = f"two cases have the name {case.name!r}"
                source.add((*entry.place, "name"), text, row=entry.row)
            cases[case.name] = case
    if problems := source.problems:
        raise ConfigError.from_problems(problems)
    return Suite(
        name=content.get("name") or Path(path).stem,
        cases=tuple(cases.values()),
        caps=Caps.model_validate(content.get("caps", {})),
        folder=Path(path).parent.resolve(),
    )


def suite_schema() -> dict[str, Any]:
    """Return the JSON Schema of suite files, for editors."""
    schema = _DescribedSuite.model_json_schema()
    # What a case requires may come from the defaults or from its row.
    schema["$defs"]["Case"]["required"] = ["name"]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


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


def _cases(
    source: _Source, entry: _Entry, defaults: Mapping[str, Any], matrix: Mapping[str, list[Any]]
) -> Iterator[Case]:
    """Yield the cases of an entry: one, or one for each combination of the matrix."""
    fields = entry.fields
    for values in product(*matrix.values()):
        chosen = dict(zip(matrix, values, strict=True))
        merged: dict[str, Any] = {**defaults, **chosen, **fields}
        if tags := [*_texts(defaults.get("tags")), *_texts(fields.get("tags"))]:
            merged["tags"] = list(dict.fromkeys(tags))
        if isinstance(setup := fields.get("setup"), list):
            merged["setup"] = [*{**defaults, **chosen}.get("setup", ()), *setup]
        if isinstance(files := fields.get("files"), dict):
            merged["files"] = {**{**defaults, **chosen}.get("files", {}), **files}
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


def _unknown_key(name: str, place: str, kind: type[BaseModel]) -> str:
    if kind is _SuiteFile and name in CaseSettings.model_fields:
        return "goes into `defaults`, or into a case"
    hint = did_you_mean(name, kind.model_fields)
    return f"is no key of a {place}" + (f"; {hint}" if hint else "")


_CONTENT = frozenset({"question", "conversation", "checks", "template", "rubric"})
"""The fields of which a case must have some."""


def _faults(kind: type[BaseModel], values: Mapping[str, Any]) -> dict[Path_, str]:
    """Return what is wrong with settings, and also with all of them together."""
    try:
        kind.model_validate(values)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False)
    else:
        return {}
    faults = {one["loc"]: one["msg"].removeprefix("Value error, ") for one in found}
    for one in found:
        match one:
            case {"type": "extra_forbidden", "loc": (str(name),)} if kind is _SuiteFile:
                faults[one["loc"]] = _unknown_key(name, "suite", _SuiteFile)
            case {"type": "extra_forbidden", "loc": (str(name),) | ("defaults", str(name))}:
                faults[one["loc"]] = _unknown_key(name, "case", Case)
            case _:
                pass
    wrong = {str(path[0]) for path in faults if path}
    if wrong & values.keys() and not wrong & _CONTENT:
        # What concerns several fields is checked only where each of them is right.
        rest = {key: value for key, value in values.items() if key not in wrong}
        faults |= {path: text for path, text in _faults(kind, rest).items() if not path}
    return faults


def _texts(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value or [])
