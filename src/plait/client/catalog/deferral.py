"""Which tools are shown to a model, which are deferred, and finding these by what they do.

The search is BM25F over names, descriptions and parameters.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, Literal, cast

from plait.client.catalog.filters import ToolFilter
from plait.client.catalog.tool import Tool
from plait.client.config.budgets import Deferral
from plait.client.config.servers import ServerConfig
from plait.models.schemas.for_provider import Profile, schema_for_provider
from plait.models.schemas.json_schema import as_list, entries_of, is_mapping

TokenCounter = Callable[[str], int]
"""Counts the tokens of a text."""

_BYTES_PER_TOKEN: Final = 4
"""Roughly the ratio for English and JSON with the tokenizers of large providers."""


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text: one for every four bytes of UTF-8, rounded up."""
    # A server may send half a surrogate pair, which plain UTF-8 rejects.
    size = len(text.encode("utf-8", "surrogatepass"))
    return -(-size // _BYTES_PER_TOKEN)


def tokens_of(
    tool: Tool, profile: Profile | None = None, counter: TokenCounter | None = None
) -> int:
    """Count the tokens of a tool's definition in every request; `counter` replaces the estimate."""
    return (counter or estimate_tokens)(definition_text(tool, profile))


def definition_text(tool: Tool, profile: Profile | None = None) -> str:
    """Write the definition of a tool that a model gets, as compact JSON."""
    definition = {
        "name": tool.name,
        "description": tool.description or tool.title or "",
        "parameters": schema_for_provider(tool.input_schema, profile).schema,
    }
    return json.dumps(definition, ensure_ascii=False, separators=(",", ":"), default=str)


@dataclass(frozen=True, slots=True)
class Split:
    """The tools of one list, in their order."""

    shown: tuple[Tool, ...]
    deferred: tuple[Tool, ...] = ()


class DeferralPlan:
    """Splits tools by the deferral settings of a client and its servers; those of a server win."""

    def __init__(
        self,
        common: Deferral | None,
        servers: Mapping[str, ServerConfig],
        *,
        counter: TokenCounter | None = None,
    ) -> None:
        """Use the client's setting, and the servers, which may change."""
        self._common = common
        self._servers = servers
        self._counter = counter
        self._tokens: dict[str, tuple[Tool, int]] = {}
        self._index: ToolIndex | None = None

    @property
    def is_set(self) -> bool:
        """Whether any tool may be deferred."""
        own = (server.defer for server in self._servers.values())
        return any(one is not None and not one.is_off for one in (self._common, *own))

    @property
    def is_native(self) -> bool:
        """Whether to use the tool search of the model's provider."""
        return self._common is not None and self._common.native

    def split(self, tools: Iterable[Tool]) -> Split:
        """Split tools into shown and deferred ones."""
        listed = tuple(tools)
        if not self.is_set:
            return Split(listed)
        deferred: set[str] = set()
        # About these their own servers decide, whatever the limit of tokens.
        by_servers: set[str] = set()
        for tool in listed:
            server = self._servers.get(tool.server)
            own = None if server is None else server.defer
            deferral = own or self._common
            if deferral is not None and ToolFilter.of(include=deferral.tools).offers(tool):
                deferred.add(tool.full_name)
            if own is not None:
                by_servers.add(tool.full_name)
        limit = self._common.over_tokens if self._common is not None else None
        if limit is not None:
            total = 0
            for tool in listed:
                if tool.full_name not in deferred & by_servers:
                    known = self._tokens.get(tool.full_name)
                    if known is None or not _same_tool(known[0], tool):
                        known = (tool, tokens_of(tool, counter=self._counter))
                        self._tokens[tool.full_name] = known
                    total += known[1]
            if total <= limit:
                deferred &= by_servers
        return Split(
            tuple(tool for tool in listed if tool.full_name not in deferred),
            tuple(tool for tool in listed if tool.full_name in deferred),
        )

    def index(self, tools: Sequence[Tool]) -> ToolIndex:
        """Return a search index of these tools; the last one is reused while they stay the same."""
        known = () if self._index is None else self._index.tools
        is_same = len(known) == len(tools) and all(map(_same_tool, known, tools))
        if self._index is None or not is_same:
            self._index = ToolIndex(tools)
        return self._index


def _same_tool(one: Tool, other: Tool) -> bool:
    same_names = one.full_name == other.full_name and one.name == other.name
    same_texts = one.title == other.title and one.description == other.description
    return same_names and same_texts and one.input_schema is other.input_schema


_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_A-Za-z]+|\d+")
"""A word, also inside of `camelCase`, `snake_case` and `HTTPServer`."""
_FILE: Final = re.compile(r"(?<!\S)[\w*/.-]*(?:\w\w|\*)\.[a-z][a-z0-9]{1,3}\b", re.IGNORECASE)
"""The name of a file, or a pattern of such names."""

_STOP_WORD_TEXT: Final = """
a about am an and any are as at be been but by can could did do does for from had has have
he her his how i if in into is it its just let me my no not of off on or our out please
shall she should so some such than that the their them then there these they this those to
up us use used uses using want was we were what which who whom why will with would you your
"""
"""Words without meaning for what a tool does."""

_STOP_WORDS: Final = frozenset(_STOP_WORD_TEXT.split())

_SYNONYMS_TEXT: Final = """
add append insert put, add plus sum total, all complete entire everything full whole,
allow permit, archive compress zip, begin execute launch run start trigger, big large size,
cancel end stop, change edit modify replace update, compare diff difference,
connect link relate relationship, copy duplicate, create creation make new, current now today,
date day time when, delete drop erase forget remove, detail info information metadata,
dir directory folder, display list show view, email mail, env environment,
fetch get load open read retrieve view, find locate lookup query search where, history log,
image photo picture, many multiple several, message text, move rename,
nested recursive subdirectory subfolder, permission right, repo repository,
record remember save store write, send post submit, state status, switch toggle
"""
"""Groups of synonyms; a word may be in several."""


def words_of(text: str) -> list[str]:
    """Split a text into stemmed words, without stop words."""
    return [stem(word) for word in _words(text)]


def query_words_of(text: str) -> list[str]:
    """Split a query into words, without stemming; the name of a file becomes `file`."""
    return list(_words(_FILE.sub(" file ", text)))


def _words(text: str) -> Iterator[str]:
    for match in _WORD.finditer(text):
        if (word := match.group().lower()) not in _STOP_WORDS:
            yield word


@lru_cache(maxsize=8192)
def stem(word: str) -> str:
    """Reduce an English word in lower case to its stem: files, filing and filed are one."""
    import snowballstemmer  # noqa: PLC0415  # loads all languages, which takes a while

    # A stemmer has state, so threads cannot share one.
    return cast("Any", snowballstemmer).stemmer("english").stemWord(word)


@lru_cache(maxsize=1)
def _synonym_groups() -> list[frozenset[str]]:
    return [frozenset(map(stem, group.split())) for group in _SYNONYMS_TEXT.split(",")]


def synonyms_of(word: str) -> frozenset[str]:
    """Return the stems of synonyms."""
    groups = (group for group in _synonym_groups() if word in group)
    return frozenset[str]().union(*groups) - {word}


Field = Literal["name", "title", "description", "server", "parameters", "parameter_texts"]
"""The parts of a tool that are indexed."""

_WEIGHTS: Final[Mapping[Field, float]] = {
    "name": 2.0,
    "title": 1.0,
    "description": 1.0,
    "server": 0.5,
    "parameters": 0.5,
    "parameter_texts": 0.3,
}
"""The weight of a word, by field."""

_SIMILAR: Final = 0.7
"""The weight of a synonym relative to the word itself."""
_SATURATION: Final = 1.2
_LENGTH: Final = 0.5
"""The k1 and b of BM25F; texts about tools are short, so their length matters less."""
MAX_PARAMETER_LEVELS: Final = 4
"""Deeper parameters say little about what a tool is for."""
MIN_PART_CHARS: Final = 3
"""Shorter parts of a word are chance."""


@dataclass(frozen=True, slots=True)
class Match:
    """A search result; scores of one search can be compared."""

    tool: Tool
    score: float


class ToolIndex:
    """A search index of tools; tools with equal scores keep their order."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self.tools = tuple(tools)
        fields: list[dict[Field, list[str]]] = []
        for tool in self.tools:
            words: dict[Field, list[str]] = {
                "name": words_of(tool.name),
                "title": words_of(tool.title or ""),
                "description": words_of(tool.description),
                "server": words_of(tool.server),
                "parameters": [],
                "parameter_texts": [],
            }
            for text, field in _parameter_texts(tool.input_schema, MAX_PARAMETER_LEVELS):
                words[field] += words_of(text)
            fields.append(words)
        # A word counts less in a field that is longer than usual. Lengths are compared per field,
        # so that many parameters do not weaken a name.
        usual: dict[Field, float] = {
            name: sum(len(one[name]) for one in fields) / (len(fields) or 1) for name in _WEIGHTS
        }
        self._counts: list[dict[str, float]] = []
        for one in fields:
            counts: dict[str, float] = {}
            for field, listed in one.items():
                norm = 1 - _LENGTH + _LENGTH * len(listed) / (usual[field] or 1.0)
                for word in listed:
                    counts[word] = counts.get(word, 0.0) + _WEIGHTS[field] / norm
            self._counts.append(counts)
        self._spread = Counter(word for counts in self._counts for word in counts)

    def search(self, query: str, limit: int = 5) -> list[Match]:
        """Return the best matches, best first; tools without a common word are left out."""
        words = list(self._alternatives(query))
        scores = [self._score(index, words) for index in range(len(self.tools))]
        ranked = sorted(range(len(scores)), key=lambda index: -scores[index])
        return [
            Match(self.tools[index], scores[index]) for index in ranked[:limit] if scores[index] > 0
        ]

    def _alternatives(self, query: str) -> Iterator[Mapping[str, float]]:
        """Yield, for each word of the query, its alternatives with their weights."""
        words = query_words_of(query)
        for written in dict.fromkeys(words):
            word = stem(written)
            alternatives = {word: 1.0}
            if word not in self._spread:
                alternatives.update(dict.fromkeys(self._parts(written), _SIMILAR))
            for other in synonyms_of(word):
                alternatives.setdefault(other, _SIMILAR)
            yield alternatives
        for first, second in pairwise(words):
            if (joined := stem(first + second)) in self._spread:  # "time zone" and "timezone"
                yield {joined: 1.0}

    def _parts(self, word: str) -> Sequence[str]:
        """Split a word that no tool has into two that some have."""
        for cut in range(MIN_PART_CHARS, len(word) - MIN_PART_CHARS + 1):
            parts = stem(word[:cut]), stem(word[cut:])
            if all(part in self._spread for part in parts):
                return parts
        return ()

    def _score(self, index: int, words: Iterable[Mapping[str, float]]) -> float:
        def weight(word: str) -> float:
            spread = self._spread[word]
            rarity = math.log(1 + (len(self.tools) - spread + 0.5) / (spread + 0.5))
            return rarity * counts[word] / (counts[word] + _SATURATION)

        counts = self._counts[index]
        return sum(
            max(share * weight(word) for word, share in alternatives.items() if word in counts)
            for alternatives in words
            if not counts.keys().isdisjoint(alternatives)
        )


def _parameter_texts(schema: object, levels: int) -> Iterator[tuple[str, Field]]:
    """Yield the names, descriptions and choices of parameters, also those inside of others."""
    if levels == 0 or not is_mapping(schema):
        return
    for name, inner in entries_of(schema.get("properties")).items():
        yield str(name), "parameters"
        yield from _texts_of(inner)
        yield from _parameter_texts(inner, levels - 1)
    yield from _parameter_texts(schema.get("items"), levels - 1)
    for key in ("anyOf", "oneOf", "allOf"):
        for member in as_list(schema.get(key)):
            yield from _texts_of(member)
            yield from _parameter_texts(member, levels - 1)


def _texts_of(schema: object) -> Iterator[tuple[str, Field]]:
    about = entries_of(schema)
    for text in (about.get("description"), *as_list(about.get("enum"))):
        if isinstance(text, str):
            yield text, "parameter_texts"
