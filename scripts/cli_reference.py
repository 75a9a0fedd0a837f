"""Write docs/reference/cli.md, and a page for each command, from the commands themselves.

`--write` writes the pages; `--check`, the default, fails when one is stale.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

import click

from plait.cli import arguments, main
from plait.cli.base import ExampleCommand
from plait.cli.exits import Exit

REFERENCE = Path(__file__).resolve().parent.parent / "docs" / "reference"
INDEX = Path("cli.md")
WRITTEN = "<!-- Written by scripts/cli_reference.py; change the commands, not this page. -->"

HEAD = f"""\
# Command line

{WRITTEN}

Each command has a page. `python -m plait.cli` is the same program.

Results go to stdout, everything else to stderr.
On a terminal, control characters from servers are made visible; in a pipe the text is exact.
`NO_COLOR` turns colour off.
"""

CONFIGURATION = """\
## Which configuration is read

The first of these that exists: the file of `--config`, the file of `$PLAIT_CONFIG`,
`./mcp.json`, `./.mcp.json`, `~/.config/plait/mcp.json`.

A file found in the working folder must be [approved](../how-to/trust-a-folder.md) first, and again
after each change. On a terminal the command asks; elsewhere it exits with code 12.
`--trust` approves it; `PLAIT_TRUST=1` skips the check, for CI.
A file that everybody on the machine can write is refused.

Values written as `${input:id}` are prompted for on the terminal; `PLAIT_INPUT_<ID>` sets them.

## Logs

| Option or variable | Shows |
| --- | --- |
| `-v` | plait's log, and tracebacks |
| `-vv`, `PLAIT_DEBUG="*"` | also messages of servers; `-vv` adds the log of libraries |
| `PLAIT_DEBUG=transports,connections` | only the log of these packages |
| `--wire`, `PLAIT_DEBUG=wire` | messages only, a line each, no secrets, cut after 400 characters |
| `--wire=full`, `PLAIT_DEBUG=wire=full` | the same, not cut |

## JSON

With `--json` stdout holds one JSON value and nothing else; each command's page lists its fields.
Contents and messages keep the names of the protocol (`mimeType`).
An `error` has `type`, `error` (the class), `message` and `retryable`, and where known `code` \
(JSON-RPC), `status` (HTTP), `retry_after` and `challenge`.
"""

JSON = {
    "servers": "a list: `name`, `transport`, `state`, `protocol_version`, `server_info`, "
    "`tool_count`, `last_error`, …",
    "tools": "a list: `server`, `name`, `title`, `description`, `input_schema`, `output_schema`, "
    "`annotations`",
    "call": "an object: `server`, `tool`, `is_error`, `content`, `structured_content`, `meta`, "
    "`attempts`, `notes`, `seconds`; `saved` with `--save`; `error` without a result",
    "run": "one object a line. The last is the result: `event` (`result`), `final_response`, "
    "`status` (`completed`, `limit`, `timeout`, `cancelled`, `failed`), `limit_reached`, "
    "`timeout_reached`, `turns`, `usage`, `seconds`, `interface`, `model`, `actual_model`, "
    "`session_id`, `run`, `trace`, `trace_messages`, `error`",
    "resources": "a list: `server`, `kind` (`resource` or `template`), and the protocol's fields",
    "read": "an object: `server`, `uri`, `contents`, or `error`",
    "prompts": "a list: `server`, and the protocol's fields",
    "prompt": "an object: `server`, `prompt`, `description`, `messages`, or `error`",
    "auth status": "a list: `server`, `signed_in`, `user`, `grant`, `issuer`, `scopes`, "
    "`expires_at` (seconds since 1970), `renewable`",
    "trace list": "a list: `file`, `run`, `began`, `interface`, `model`, `question_hash`, "
    "`task_id`, `status`, `turns`, `tool_calls`, `usage`, `seconds`, `damaged`",
    "trace show": "the fields of `trace list`, and `events`, as in the [file](../traces.md#events)",
    "trace diff": "an object: `same`, `diff` (lines)",
    "doctor": "an object: `ok`, `servers`, `tokens` (`tools`, `tokens`, `profile`, `servers`, "
    "`largest`), and `findings` with `server`, `level` (`ok`, `warn`, `error`), `code`, `message`, "
    "`fix`, `details`",
}
"""What stdout holds with `--json`; the other commands print what they show."""


MOST_EXAMPLES = 4
"""Of a command; its help has the others."""

RANGE = re.compile(r"; [\d.<=>]*x[\d.<=>]+(?=\])|  \[[\d.<=>]*x[\d.<=>]+\]")
"""The limits of a number, which are in the error about a number beyond them."""


def reference() -> dict[Path, str]:
    """Return the text of each page, by its path below the reference."""
    context = click.Context(main, info_name="plait", **main.context_settings)
    common = dict(options_of(main, context))
    pages = {INDEX: index(tuple(common.items()))}
    # What `plait chat` has in common with `plait run` is described there only.
    run_command = main.get_command(context, "run")
    assert run_command
    for_agents = {name for name, _ in options_of(run_command, context)}
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert isinstance(command, ExampleCommand)
        seen = set[str]()
        parts = [f"# plait {name}\n\n<!-- scripts/cli_reference.py -->\n"]
        if name == "chat":
            parts += section(command, context, common.keys() | for_agents, seen, ())
            parts.append("The options of [plait run](run.md) about model, limits and trace, too.\n")
        else:
            parts += section(command, context, common.keys(), seen, ())
        if isinstance(command, click.Group):
            within = click.Context(command, info_name=name, parent=context)
            for inner in command.commands.values():
                assert isinstance(inner, ExampleCommand)
                parts += section(inner, within, common.keys(), seen, command.examples)
        if name == "call":
            parts.append(f"The words after the tool:\n\n{fenced(arguments.__doc__ or '')}\n")
        pages[Path("cli", f"{name}.md")] = "\n".join(parts)
    return pages


def index(common: Sequence[tuple[str, str]]) -> str:
    """Return the page with all commands, and what they have in common."""
    commands = ",\n".join(f"[`plait {name}`](cli/{name}.md)" for name in main.lazy_commands)
    return "\n".join(
        [
            HEAD,
            "## Commands\n",
            f"{commands}.\n",
            "## Options of every command\n",
            "They may stand before or after the command.\n",
            table(("Option", "Meaning"), common),
            CONFIGURATION,
            "## Exit codes\n",
            table(("Code", "Meaning"), [(str(code.value), code.meaning) for code in Exit]),
        ]
    )


def section(
    command: ExampleCommand,
    parent: click.Context,
    elsewhere: AbstractSet[str],
    seen: set[str],
    shown: Sequence[str],
) -> Iterator[str]:
    """Write about one command, without options that are described elsewhere or were seen."""
    context = click.Context(command, info_name=command.name, parent=parent)
    path = context.command_path
    usage = " ".join((path, *command.collect_usage_pieces(context))).replace(" [OPTIONS]", "")
    if isinstance(parent.command, click.Group) and parent.parent:
        yield f"## `{usage}`\n"
    elif not isinstance(command, click.Group) and usage != path:
        yield f"Usage: `{usage}`\n"
    for paragraph in (command.help or "").split("\n\n"):
        yield "\n".join(sentences(paragraph)) + "\n"
    options = dict(options_of(command, context))
    with_json = bool(options.pop("`--json`", None))
    own = [name for name in options if name not in elsewhere]
    if rows := [(name, options[name]) for name in own if name not in seen]:
        yield "\n".join(f"- {option}: {meaning}" for option, meaning in rows) + "\n"
    again = [name.partition(" ")[0].rstrip("`") + "`" for name in own if name in seen]
    fields = JSON.get(path.removeprefix("plait "))
    if with_json and not fields:
        again.append("`--json`")
    if again:
        yield f"Also: {', '.join(again)}.\n"
    if fields:
        yield f"`--json` prints {fields}.\n"
    seen.update(own)
    # Of a command within a group, only examples that show more than its options do.
    lines = [as_shell(line) for line in command.examples if not shown or worth_showing(line)]
    lines = lines[:MOST_EXAMPLES]
    if lines:
        yield "```shell\n" + "\n".join(lines) + "\n```\n"


def worth_showing(line: str) -> bool:
    """Tell whether an example has a remark, or words for another program."""
    return "  " in line or any(sign in line for sign in "|<>")


def options_of(command: click.Command, context: click.Context) -> list[tuple[str, str]]:
    """Return each option with its help."""
    options = [part for part in command.get_params(context) if isinstance(part, click.Option)]
    records = (option.get_help_record(context) for option in options)
    return [(f"`{record[0]}`", RANGE.sub("", record[1])) for record in records if record]


def fenced(docstring: str) -> str:
    """Return the block between the fences of a docstring, fences included."""
    return docstring[docstring.index("```") : docstring.rindex("```") + 3]


def sentences(paragraph: str) -> list[str]:
    """Put each sentence on its own line."""
    joined = " ".join(paragraph.split())
    return re.split(r"(?<=[.]) (?=[A-Z])", joined)


def as_shell(line: str) -> str:
    """Turn the remark behind an example into a comment."""
    command, gap, remark = line.partition("  ")
    return (
        f"{command}{gap}{remark.replace(remark.lstrip(), '# ' + remark.lstrip())}" if gap else line
    )


def table(head: tuple[str, str], rows: Sequence[tuple[str, str]]) -> str:
    """Write a Markdown table."""
    cells = [(left.replace("|", r"\|"), right.replace("|", r"\|")) for left, right in rows]
    lines = [head, ("---", "---"), *cells]
    return "\n".join(f"| {left} | {right} |" for left, right in lines) + "\n"


def run(arguments: Sequence[str]) -> int:
    """Write or check the pages."""
    pages = {REFERENCE / path: text for path, text in reference().items()}
    there = set((REFERENCE / "cli").glob("*.md")) | {REFERENCE / INDEX}
    stale = sorted(
        page
        for page in {*pages, *there}
        if not page.exists() or page.read_text(encoding="utf-8") != pages.get(page)
    )
    if "--write" in arguments:
        for page in stale:
            page.parent.mkdir(exist_ok=True)
            if page in pages:
                page.write_text(pages[page], encoding="utf-8")
            else:
                page.unlink()
        return 0
    for page in stale:
        print(f"{page} is stale: run python scripts/cli_reference.py --write", file=sys.stderr)
    return bool(stale)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
