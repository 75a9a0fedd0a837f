"""Write docs/reference/cli.md from the commands themselves.

`--write` writes the page; `--check`, the default, fails when it is stale.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from plait.cli import arguments, main
from plait.cli.base import ExampleCommand
from plait.cli.exits import Exit

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "cli.md"

HEAD = """\
# Command line

<!-- Written by scripts/cli_reference.py; change the commands, not this page. -->

`plait` lists and calls the tools of the servers in your `mcp.json`, and gives them to agents.
The same program is `python -m plait.cli`.

Results go to stdout, everything else to stderr.
On a terminal, control characters that a server sends are made visible; in a pipe its text is exact.
With `--json` stdout holds one JSON value and nothing else.
`NO_COLOR` turns colour off.
"""

CONFIGURATION = """\
## Which configuration is read

The first of these that exists:

1. the file named by `--config`
2. the file named by `$PLAIT_CONFIG`
3. `./mcp.json`
4. `./.mcp.json`
5. `~/.config/plait/mcp.json`

The third and the fourth are used once you have [approved](../how-to/trust-a-folder.md) them, and
again after each change: on a terminal a command shows what the file does and asks; elsewhere it
exits with code 12. `--trust` approves it, and `PLAIT_TRUST=1` uses it without asking, for CI.
A file that everybody on the machine can write is refused.

A value that the file wants to be asked for (`${input:id}`) is asked on the terminal, hidden if it
is a password; `PLAIT_INPUT_<ID>` answers without asking.

## The log

`-v` shows plait's own log on stderr, and the traceback of an error.
`-vv` adds the messages to and from the servers, and the log of the libraries below.
`PLAIT_DEBUG="*"` shows plait's log with the messages.
`PLAIT_DEBUG=transports,connections` shows only these packages.

`--wire` shows only the messages, one a line: direction, server, id, method, milliseconds and size.
The message itself follows, without secrets, cut after 400 characters.
`--wire=full` shows all of it.
In a program of yours, `PLAIT_DEBUG=wire` and `PLAIT_DEBUG=wire=full` do the same.

## JSON

| Command | stdout with `--json` |
| --- | --- |
| `servers` | a list: `name`, `transport`, `state`, `protocol_version`, `server_info`, \
`tool_count`, `last_error`, … |
| `tools` | a list: `server`, `name`, `title`, `description`, `input_schema`, `output_schema`, \
`annotations` |
| `call` | an object: `server`, `tool`, `is_error`, `content`, `structured_content`, `meta`, \
`attempts`, `notes`, `seconds`; `saved` with `--save`; `error` when there is no result |
| `run` | an object a line: the events of the run as they happen, and last the result: \
`event` (`result`), `final_response`, `status` (`completed`, `limit`, `timeout`, `cancelled`, \
`failed`), `limit_reached`, `timeout_reached`, `turns`, `usage`, `seconds`, `interface`, `model`, \
`actual_model`, `session_id`, `run` (its id), `trace` (the file), `trace_messages`; `error` when \
it failed, with `status` alone if it did not begin |
| `resources` | a list: `server`, `kind` (`resource` or `template`), and the protocol's own fields |
| `read` | an object: `server`, `uri`, `contents`; `error` when there is none |
| `prompts` | a list: `server`, and the protocol's own fields |
| `prompt` | an object: `server`, `prompt`, `description`, `messages`; `error` when there are none |
| `auth status` | a list: `server`, `signed_in`, `user`, `grant`, `issuer`, `scopes`, \
`expires_at` (seconds since 1970), `renewable` |
| `trace list` | a list: `file`, `run`, `began`, `interface`, `model`, `question_hash`, `task_id`, \
`status`, `turns`, `tool_calls`, `usage`, `seconds`, `damaged` |
| `trace show` | the same of one run, and `events`, as in the [file](traces.md#events) |
| `trace diff` | an object: `same`, `diff` (lines) |
| `doctor` | an object: `ok`, `servers`, `tokens` (`tools`, `tokens`, `profile`, `servers`, \
`largest`), and `findings` with `server`, `level` (`ok`, `warn`, `error`), `code`, `message`, \
`fix`, `details` |

Contents and messages are what the server sent, with the names of the protocol (`mimeType`).
An `error` has `type`, `error` (the class), `message` and `retryable`, and where known `code` \
(JSON-RPC), `status` (HTTP), `retry_after` and `challenge`.
"""


def page() -> str:
    """Return the whole page."""
    context = click.Context(main, info_name="plait", **main.context_settings)
    common = options_of(main, context)
    known = {name for name, _ in common}
    parts = [HEAD, "## Commands\n"]
    for name, lazy in main.lazy_commands.items():
        parts.append(f"- [`plait {name}`](#plait-{name}): {lazy.help}")
    parts.append("\n## Options of every command\n")
    parts.append(
        "They may stand before or after the name of the command; `--version` stands alone.\n"
    )
    parts.append(table(("Option", "Meaning"), common))
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert isinstance(command, ExampleCommand)
        parts.append("\n".join(command_section(command, context, known)))
        if isinstance(command, click.Group):
            within = click.Context(command, info_name=name, parent=context)
            for inner in command.commands.values():
                assert isinstance(inner, ExampleCommand)
                parts.append("\n".join(command_section(inner, within, known)))
        if name == "call":
            parts.append(f"The words after the tool:\n\n{fenced(arguments.__doc__ or '')}\n")
    parts.append(CONFIGURATION)
    parts.append("## Exit codes\n")
    parts.append(table(("Code", "Meaning"), [(str(code.value), code.meaning) for code in Exit]))
    return "\n".join(parts)


def command_section(
    command: ExampleCommand, parent: click.Context, known: set[str]
) -> Iterator[str]:
    """Write the section of one command."""
    context = click.Context(command, info_name=command.name, parent=parent)
    pieces = " ".join(command.collect_usage_pieces(context))
    yield f"## {context.command_path}\n"
    yield f"```text\n{context.command_path} {pieces}\n```\n"
    for paragraph in (command.help or "").split("\n\n"):
        yield "\n".join(sentences(paragraph)) + "\n"
    own = [row for row in options_of(command, context) if row[0] not in known]
    if own:
        yield table(("Option", "Meaning"), own)
    examples = "\n".join(as_shell(line) for line in command.examples)
    yield f"```shell\n{examples}\n```\n"


def options_of(command: click.Command, context: click.Context) -> list[tuple[str, str]]:
    """Return each option with its help."""
    options = [part for part in command.get_params(context) if isinstance(part, click.Option)]
    records = (option.get_help_record(context) for option in options)
    return [(f"`{record[0]}`", record[1]) for record in records if record]


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
    """Write or check the page."""
    if "--write" in arguments:
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page():
        print(f"{PAGE} is stale: run python scripts/cli_reference.py --write", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
