"""`plait serve --status`: clients, servers, calls and heals of every process, as they happen."""

from __future__ import annotations

import sys
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from plait.cli.terminal import console_for, print_aside, print_json, print_rich, visible_line
from plait.html.pieces import count_label, seconds_label

if TYPE_CHECKING:
    from rich.console import Group
    from rich.text import Text

Row = dict[str, Any]

MAX_SHOWN_EVENTS: Final = 12
_STYLES: Final = {"ready": "green", "failed": "red", "lost": "red", "closed": "red"}


def show_status(*, as_json: bool) -> None:
    """Print what runs now; on a terminal, follow it until Ctrl-C."""
    from plait.serve.journal import WRITE_SECONDS, read_states

    states = read_states()
    if as_json:
        print_json(states)
        return
    if not states:
        print_aside("note", "no plait serve is running", colour="cyan")
        return
    console = console_for(sys.stdout)
    if not console.is_terminal:
        print_rich(_view(states))
        return
    from rich.live import Live

    with Live(_view(states), console=console, auto_refresh=False) as live:
        try:
            while True:
                time.sleep(WRITE_SECONDS)
                live.update(_view(read_states()), refresh=True)
        except KeyboardInterrupt:
            return


def _view(states: list[Row]) -> Group:
    from rich.console import Group
    from rich.text import Text

    lines: list[Text] = []
    for state in states:
        where = state.get("address") or "stdio"
        head = f"plait serve {state['pid']}, {where}, {state.get('config')}"
        lines.append(Text(visible_line(head), style="bold"))
        for client in state["clients"]:
            lines += _client_lines(client)
        if not state["clients"]:
            lines.append(Text("  no client", style="dim"))
        lines += map(_event_line, state["feed"][-MAX_SHOWN_EVENTS:])
        if state.get("trace"):
            lines.append(Text(f"  trace: {state['trace']}", style="dim"))
    return Group(*lines)


def _client_lines(client: Row) -> list[Text]:
    from rich.text import Text

    program = f" ({client['program']})" if client["program"] else ""
    calls = count_label(client["calls"], "call") + f", {client['failed']} failed"
    busy = f", now {', '.join(client['under_way'])}" if client["under_way"] else ""
    lines = [Text("  " + visible_line(f"{client['name']}{program}: {calls}{busy}"), style="cyan")]
    for one in client["servers"]:
        more = [one["transport"], one["protocol"], one["pid"] and f"pid {one['pid']}"]
        facts = ", ".join(str(fact) for fact in more if fact)
        text = Text(f"    {visible_line(one['name'])} ")
        text.append(one["state"], style=_STYLES.get(one["state"], "dim"))
        text.append("  " + visible_line(f"{facts}  {one['error'] or ''}"), style="dim")
        lines.append(text)
    return lines


def _event_line(event: Row) -> Text:
    from rich.text import Text

    at = datetime.fromisoformat(event["at"]).astimezone().strftime("%H:%M:%S")
    if event["kind"] == "heal":
        words, style = f"healed {event['what']}", "yellow"
    else:
        words, style = f"called {event['what']}", "red" if event["is_error"] else ""
    detail = f": {event['detail']}" if event.get("detail") else ""
    seconds = seconds_label(event["seconds"])
    line = visible_line(f"{at} {event['client']} {words} in {seconds}{detail}")
    return Text(f"  {line}", style=style)
