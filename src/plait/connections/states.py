"""The life of a connection, as a pure state machine.

```text
          wanted              opened
  idle ──────────► connecting ───────► ready ──── idled ────► idle
                     ▲     │             │
               rested│     │refused      │lost
                     │     ▼             ▼
                    waiting           lost ──► connecting
                           │
                           └─► failed   (only when reconnecting is switched off)
  any ── closed ──► closed
```
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from plait.config.policies import ReconnectPolicy

State = Literal["idle", "connecting", "ready", "lost", "waiting", "failed", "closed"]

Breaker = Literal["closed", "open", "half-open"]

Signal = Literal["wanted", "opened", "proven", "refused", "lost", "rested", "idled", "closed"]
"""What can happen to a connection.

`proven` is the first answer after the handshake. A session that is lost before it counts as a
refusal, so that a server that dies at once is not started in a tight loop.
"""


@dataclass(frozen=True, slots=True)
class Condition:
    """Where a connection stands."""

    state: State = "idle"

    failures: int = 0
    """Refusals in a row."""

    proven: bool = False

    final: bool = False
    """Whether the last refusal was of a kind that waiting does not cure."""


def step(
    condition: Condition, signal: Signal, policy: ReconnectPolicy, *, final: bool = False
) -> Condition:
    """Return where the connection stands after a signal; one out of place changes nothing."""
    state = condition.state
    match signal:
        case "closed":
            return replace(condition, state="closed")
        case _ if state == "closed":
            return condition
        case "wanted" if state == "idle":
            return replace(condition, state="connecting", proven=False)
        case "rested" if state in {"waiting", "lost", "failed"}:
            return replace(condition, state="connecting", proven=False)
        case "opened" if state == "connecting":
            return replace(condition, state="ready", proven=False, final=False)
        case "proven" if state == "ready":
            return replace(condition, proven=True, failures=0)
        case "idled" if state == "ready":
            return replace(condition, state="idle")
        case "lost" if state == "ready":
            return _lost(condition, policy)
        case "refused" if state == "connecting":
            return _refused(condition, policy, final=final)
        case _:
            return condition


def _lost(condition: Condition, policy: ReconnectPolicy) -> Condition:
    if not policy.enabled:
        return replace(condition, state="failed")
    if condition.proven:
        return replace(condition, state="lost", failures=0)
    return _refused(condition, policy, final=False)


def _refused(condition: Condition, policy: ReconnectPolicy, *, final: bool) -> Condition:
    state: State = "waiting" if policy.enabled else "failed"
    return replace(condition, state=state, failures=condition.failures + 1, final=final)


def breaker_of(condition: Condition, policy: ReconnectPolicy) -> Breaker:
    """Say whether calls go through: `open` refuses them, `half-open` is a probe under way."""
    tripped = condition.final or condition.failures >= policy.max_attempts
    if condition.state == "failed" or (tripped and condition.state == "waiting"):
        return "open"
    if tripped and condition.state == "connecting":
        return "half-open"
    return "closed"


def may_wait(condition: Condition, policy: ReconnectPolicy) -> bool:
    """Say whether a caller without a session should wait for one."""
    return condition.state != "closed" and breaker_of(condition, policy) == "closed"
