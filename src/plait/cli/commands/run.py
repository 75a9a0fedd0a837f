"""`plait run` and `plait chat`: an agent that has the tools of your servers, and its options."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from plait._support.suggestions import suggest_names
from plait.cli import session
from plait.cli.arguments import reader_for
from plait.cli.base import (
    AMOUNT,
    Command,
    ExampleCommand,
    json_option,
    limit,
    repeatable,
    timeout_option,
)
from plait.errors import ConfigError

if TYPE_CHECKING:
    from plait.agents.config import ModelConfig
    from plait.traces.messages.message import ImageContent

_IMAGES: Final = {"png": "png", "jpg": "jpeg", "jpeg": "jpeg", "gif": "gif", "webp": "webp"}

MAX_IMAGE_BYTES: Final = 10_000_000
"""Providers refuse larger images."""


def _known_engine(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    if value is None:
        return None
    from plait.agents.registry import REGISTRY

    known = REGISTRY.names()
    if value not in known:
        raise click.BadParameter(f"there is no engine {value!r}: {suggest_names(value, known)}")
    return value


def _budget(_: click.Context, __: click.Parameter, value: str | None) -> object:
    if value is None:
        return None
    from plait.client.config.read import read_options

    budget = False if value == "off" else int(value) if value.isdecimal() else value
    try:
        read_options({"result_budget": budget})
    except ConfigError as error:
        raise click.BadParameter(f"{error.problems[0].message}; or write off") from error
    return budget


def _shown(default: int) -> dict[str, Any]:
    return {"default": default, "show_default": True}


_OPTIONS: Final = (
    repeatable("--server", "servers", "NAME", "Use this server only"),
    click.option(
        "--model",
        metavar="MODEL",
        help="PROVIDER:NAME, ollama:NAME, URL#NAME, scripted:FILE or manual:FILE; "
        "by default $PLAIT_MODEL, or the first model found.",
    ),
    click.option(
        "--engine",
        metavar="ENGINE",
        callback=_known_engine,
        help="langchain, claude_tool, claude_agent_sdk, openai_endpoint, openrouter or manual; "
        "by default the one that fits the model.",
    ),
    limit("--max-turns", "N", "Maximum number of model turns for one task.", **_shown(25)),
    timeout_option("Timeout of one task."),
    click.option("--policy", metavar="PATH", help="Use this policy instead of the configured one."),
    click.option(
        "--yes", is_flag=True, help="Approve calls for which the policy requires approval."
    ),
    click.option("--system", metavar="TEXT", help="System prompt."),
    repeatable("--image", "images", "FILE", "Show this image to the model"),
    click.option(
        "--temperature", type=click.FloatRange(min=0), metavar="NUMBER", help="Temperature."
    ),
    limit("--max-tokens", "N", "Maximum tokens of one answer."),
    limit("--thinking", "N", "Tokens that a model of Anthropic may think."),
    click.option("--base-url", metavar="URL", help="URL of the model's API."),
    limit("--max-total-tokens", "N", "Maximum tokens of the whole run or conversation."),
    limit(
        "--max-cost",
        "USD",
        "Maximum cost of the whole run or conversation in US dollars, if the price of the model "
        "is known.",
        type=AMOUNT,
    ),
    click.option(
        "--continue",
        "continued",
        is_flag=False,
        flag_value="",
        metavar="[TRACE]",
        help="Continue the conversation of this trace, by default the newest: that of --trace, or "
        "of the last plait chat in this folder.",
    ),
    click.option("--trace", metavar="FILE", help="Append the trace to this file."),
    click.option(
        "--result-budget",
        metavar="SIZE",
        callback=_budget,
        help="Limit of one tool result: tokens, a size such as 200kB, or off; "
        "by default the configured one, or 20000.",
    ),
    click.option("--no-ollama", is_flag=True, help="Do not look for Ollama on this machine."),
)


def agent_options(command: Command) -> Command:
    """Add the options of a command that runs an agent."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def read_image(path: str) -> ImageContent:
    """Read an image file that models accept."""
    from plait.traces.messages.message import ImageContent

    kind = _IMAGES.get(Path(path).suffix.lower().lstrip("."))
    if kind is None:
        raise click.BadParameter(f"{path} is not PNG, JPEG, GIF or WebP", param_hint="--image")
    data = Path(path).read_bytes()
    if len(data) > MAX_IMAGE_BYTES:
        raise click.BadParameter(f"{path} is larger than 10 MB", param_hint="--image")
    return ImageContent(base64.b64encode(data).decode(), f"image/{kind}")


def with_model_options(config: ModelConfig, options: Mapping[str, Any]) -> ModelConfig:
    """Return the model with the settings of the command line."""
    changes: dict[str, Any] = {}
    extra = dict(config.extra_kwargs or {})
    if options["temperature"] is not None:
        changes["temperature"] = options["temperature"]
    if options["max_tokens"] is not None:
        changes["max_tokens"] = options["max_tokens"]
    is_claude = config.interface in ("claude_tool", "claude_agent_sdk")
    is_anthropic = is_claude or config.model_provider == "anthropic"
    if (tokens := options["thinking"]) is not None:
        if config.interface == "claude_agent_sdk":
            extra["max_thinking_tokens"] = tokens
        elif is_anthropic:
            extra["thinking"] = {"type": "enabled", "budget_tokens": tokens}
            changes.setdefault("temperature", None)
        else:
            text = "only models of Anthropic take a number of tokens to think"
            raise click.BadParameter(text, param_hint="--thinking")
    if (url := options["base_url"]) is not None and not is_anthropic:
        # The URL of Anthropic or of OpenAI's protocol is part of the choice of the model.
        if config.interface == "openrouter":
            _check_url(url)
            changes["endpoint_base_url"] = url
        elif config.interface != "openai_endpoint":
            _check_url(url)
            extra["base_url"] = url
    if extra:
        changes["extra_kwargs"] = extra
    fields = {name: getattr(config, name) for name in config.model_fields_set}
    return config.model_validate({**fields, **changes}) if changes else config


def _check_url(url: str) -> None:
    from plait.models.endpoints import endpoint_fault

    if (fault := endpoint_fault(url, secret=True)) is not None:
        raise click.BadParameter(fault, param_hint="--base-url")


@click.command(cls=ExampleCommand)
@click.argument("task", required=False)
@agent_options
@click.option(
    "--tasks",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="Run the tasks of this file, one a line: a JSON text, or an object with task, id, system "
    "and images.",
)
@limit("--jobs", "N", "How many tasks of --tasks run at the same time.", **_shown(4))
@click.option(
    "--traces",
    metavar="FOLDER",
    help="Folder of the traces of --tasks, by default FILE.runs; what is done there is not "
    "repeated.",
)
@json_option
@click.pass_context
def run(ctx: click.Context, task: str | None, as_json: bool, **options: Any) -> None:
    """Run an agent on a task with the tools of your servers.

    The task is one argument; "-" reads it from stdin. The answer goes to
    stdout, progress to stderr. Without a configuration the agent has no tools.

    The model is that of --model or $PLAIT_MODEL. Otherwise a key selects it
    (ANTHROPIC_API_KEY, OPENAI_API_KEY), then an endpoint on this machine
    (OPENAI_BASE_URL, Ollama). The first line shows the model and the reason.

    Calls that need approval by the policy are made if you confirm them on the
    terminal, or with --yes. Elicitation requests of servers prompt you on the
    terminal.

    Exits with code 10 at the turn limit, with 11 if the last answer was cut or
    refused, and with 124 after a timeout; the partial answer is printed.
    Ctrl-C stops a run cleanly, too.

    On a terminal the answer appears while the model writes it. Ctrl-C a second
    time stops at once.

    With --json, stdout holds one JSON object a line: the events of the run as
    they happen, and the result last, also if the run fails.

    With --tasks, many tasks run at the same time, each with a trace of its own;
    those that are done are not repeated. The exit code is that of the first
    task that did not end well.

    Examples:
        plait run "What is new in this folder?"
        plait run "Pay the invoice" --server bank --policy policy.toml
        plait run "Sum up" --model anthropic:claude-haiku-5-5 --max-turns 5
        plait run "Sum up" --model ollama:llama3.2 --trace runs.jsonl
        plait run "Sum up" --model http://127.0.0.1:8080/v1#qwen3
        plait run --tasks tasks.jsonl --jobs 8 --json > results.jsonl
        git diff | plait run - --system "Review this" -q > review.md
        plait run "How warm is it?" --model scripted:script.json --json
    """
    from plait.cli.run_agent import begin, print_end, read_tasks, run_agent, run_tasks

    if (file := options["tasks"]) is not None:
        unused = {"TASK": task, "--trace": options["trace"], "--continue": options["continued"]}
        for name, value in {**unused, "--image": options["images"] or None}.items():
            if value is not None:
                raise click.BadParameter(f"leave {name} out", param_hint="--tasks")
        tasks, traces = read_tasks(file), Path(options["traces"] or f"{file}.runs")
        with session.json_errors(ctx, status="failed"):
            plan, screen = begin(ctx, None, options, as_json=as_json, is_batch=True)
            jobs = options["jobs"]
            code = run_tasks(plan, tasks, screen, jobs=jobs, traces=traces, as_json=as_json)
        ctx.exit(code)
    if task is None and options["continued"] and not Path(options["continued"]).is_file():
        # Of `--continue TASK`, click takes the task for the trace.
        task, options["continued"] = options["continued"], ""
    if task is None:
        assert isinstance(ctx.command, ExampleCommand)  # noqa: S101 - see the decorator
        raise ctx.command.missing_argument(ctx, "TASK")
    try:
        text = reader_for([task])("-").strip() if task == "-" else task
    except UnicodeDecodeError as error:
        raise click.BadParameter("stdin is not UTF-8", param_hint="TASK") from error
    if not text.strip():
        raise click.BadParameter("the task is empty", param_hint="TASK")
    with session.json_errors(ctx, status="failed"):
        plan, screen = begin(ctx, text, options, as_json=as_json)
        outcome = run_agent(plan, screen, as_json=as_json)
    print_end(plan, outcome, screen, as_json=as_json)
    if outcome.error is not None and not as_json:
        raise outcome.error
    ctx.exit(outcome.exit_code)


@click.command(cls=ExampleCommand)
@agent_options
@click.option("--no-trace", is_flag=True, help="Keep no trace of the conversation.")
@json_option
@click.pass_context
def chat(ctx: click.Context, as_json: bool, **options: Any) -> None:
    r"""Converse with an agent that has the tools of your servers.

    Each line is a message; the agent knows what came before, and its servers
    stay open. Model, tools, policy and limits are those of "plait run". Answers
    go to stdout, everything else to stderr. Messages may be piped in, too.

    /tools, /servers and /trace show what the agent has and did; /help lists all
    commands. Ctrl-C stops an answer and keeps the conversation, twice ends the
    program; Ctrl-D or /exit ends the conversation.

    The trace is kept for --continue: in the file of --trace, or in a file of
    its own in $XDG_STATE_HOME/plait/chats.

    Examples:
        plait chat
        plait chat --continue          the last conversation in this folder
        plait chat --model ollama:llama3.2 --server files
        plait chat --model claude-haiku-5-5 --max-cost 0.50 --image plan.png
        printf 'Hello\nAnd now?\n' | plait chat -q
    """
    from plait.cli.chat import run_chat
    from plait.cli.run_agent import begin, new_conversation

    if options["no_trace"] and options["trace"] is not None:
        raise click.BadParameter("leave one of --trace and --no-trace out", param_hint="--no-trace")
    keeps = not options["no_trace"] and options["continued"] is None and not options["trace"]
    with session.json_errors(ctx, status="failed"):
        if keeps:
            options["trace"] = str(new_conversation())
        plan, screen = begin(ctx, None, options, as_json=as_json, is_chat=True)
        code = run_chat(ctx, plan, screen, as_json=as_json)
    ctx.exit(code)
