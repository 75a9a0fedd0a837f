"""The states of a connection, as a pure state machine.

```text
         requested            opened
  idle ──────────► connecting ───────► ready ──── idled ────► idle
                     ▲     │             │
        rested, cured│     │refused      │lost
                     │     ▼             ▼
      idle ◄─ idled ─ waiting         lost ──► connecting
                           │
                           └─► failed   (only when reconnecting is switched off)
  any ── closed ──► closed
```
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from plait.client.config.timing import ReconnectPolicy

State = Literal["idle", "connecting", "ready", "lost", "waiting", "failed", "closed"]

Breaker = Literal["closed", "open", "half-open"]

Signal = Literal[
    "requested", "opened", "proven", "refused", "lost", "rested", "cured", "idled", "closed"
]
"""What can happen to a connection.

`cured` means that the reason for the last failure may be gone.

`proven` is the first answer after the handshake. A session that is lost before counts as refused,
so that a server that dies at once is not restarted in a tight loop.
"""


@dataclass(frozen=True, slots=True)
class Condition:
    """The state of a connection, and its recent failures."""

    state: State = "idle"
    proven: bool = False
    failures: int = 0
    """Refusals in a row."""
    attended: int = 0
    """Refusals that a caller waited for; only these open the circuit breaker."""
    tripped_at: int | None = None
    """The number of failures when the breaker opened; `None` while it is closed."""
    final: bool = False
    """Whether waiting cannot cure the last refusal."""


_PROVEN: Final = Condition("ready", proven=True)


def step(
    condition: Condition,
    signal: Signal,
    policy: ReconnectPolicy,
    *,
    final: bool = False,
    attended: bool = False,
) -> Condition:
    """Return the condition after a signal; a signal that does not apply changes nothing.

    With `refused`, `final` means that waiting cannot cure it, and `attended` that a caller waited
    for the attempt.
    """
    state = condition.state
    match signal:
        case "closed":
            return replace(condition, state="closed")
        case _ if state == "closed":
            return condition
        case "requested" if state == "idle":
            return replace(condition, state="connecting", proven=False)
        case "rested" if state in {"waiting", "lost", "failed"}:
            return replace(condition, state="connecting", proven=False)
        case "cured" if state in {"waiting", "failed"}:
            return Condition("connecting")
        case "opened" if state == "connecting":
            return replace(condition, state="ready", final=False)
        case "proven" if state == "ready":
            return _PROVEN
        case "idled" if state in {"ready", "waiting"}:
            return Condition("idle")
        case "lost" if state == "ready" and condition.proven and policy.enabled:
            return Condition("lost")
        case "lost" if state == "ready":
            return _refused(condition, policy, final=False, attended=False)
        case "refused" if state == "connecting":
            return _refused(condition, policy, final=final, attended=attended)
        case _:
            return condition


def _refused(
    condition: Condition, policy: ReconnectPolicy, *, final: bool, attended: bool
) -> Condition:
    failures = condition.failures + 1
    waited_for = condition.attended + attended
    tripped_at = condition.tripped_at
    if tripped_at is None and (final or waited_for >= policy.max_attempts):
        tripped_at = failures
    return Condition(
        state="waiting" if policy.enabled else "failed",
        failures=failures,
        attended=waited_for,
        tripped_at=tripped_at,
        final=final,
    )


def doublings_of(condition: Condition) -> int:
    """Return how often the pause before the next attempt has doubled.

    Pauses start again from the first delay when a caller begins to wait, and when the breaker
    opens.
    """
    if condition.tripped_at is not None:
        return condition.failures - condition.tripped_at
    return max(0, (condition.attended or condition.failures) - 1)


def breaker_of(condition: Condition) -> Breaker:
    """Return the breaker's state: `open` refuses calls, `half-open` is a probe under way."""
    if condition.state == "failed":
        return "open"
    if condition.tripped_at is None:
        return "closed"
    by_state: dict[State, Breaker] = {"waiting": "open", "connecting": "half-open"}
    return by_state.get(condition.state, "closed")


def may_wait(condition: Condition) -> bool:
    """Return whether a caller without a session should wait for one."""
    return condition.state != "closed" and breaker_of(condition) == "closed"


def may_hurry(condition: Condition) -> bool:
    """Return whether a caller may cut the pause short: no caller has waited for an attempt yet."""
    return condition.state == "waiting" and condition.attended == 0 and may_wait(condition)
