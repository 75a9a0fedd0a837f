"""The states of a connection, as a pure state machine.

```text
         requested            opened
  idle ──────────► connecting ───────► ready ──── idled ────► idle
       ◄── idled ──  ▲     │             │
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
    from plait.client.config.servers import ReconnectPolicy

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
    wanted_since: float | None = None
    """When the first of them came since callers wait without a break; `None` if none waits."""
    tripped_at: int | None = None
    """The number of failures when the breaker opened; `None` while it is closed."""
    final: bool = False
    """Whether waiting cannot cure the last refusal."""
    exhausted: bool = False
    """Whether callers have waited for as many attempts as the policy allows."""


_PROVEN: Final = Condition("ready", proven=True)

STEADY_SECONDS: Final = 60.0
"""How long pauses stay the same while callers wait; then they double and the breaker opens."""


def step(
    condition: Condition,
    signal: Signal,
    policy: ReconnectPolicy,
    *,
    final: bool = False,
    attended: bool = False,
    now: float = 0.0,
) -> Condition:
    """Return the condition after a signal; a signal that does not apply changes nothing.

    With `refused`, `final` means that waiting cannot cure it, and `attended` that a caller waited
    for the attempt; `now` is the time on the monotonic clock.
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
        case "idled" if state in {"ready", "waiting", "connecting"}:
            return Condition("idle")
        case "lost" if state == "ready" and condition.proven and policy.enabled:
            return Condition("lost")
        case "lost" if state == "ready":
            # It was in use, so the next caller waits for the pause: a server that dies at once
            # would be started in a tight loop.
            refused = _after_refusal(condition, policy, final=False, attended=False, now=now)
            return replace(refused, wanted_since=condition.wanted_since or now)
        case "refused" if state == "connecting":
            return _after_refusal(condition, policy, final=final, attended=attended, now=now)
        case _:
            return condition


def _after_refusal(
    condition: Condition, policy: ReconnectPolicy, *, final: bool, attended: bool, now: float
) -> Condition:
    failures = condition.failures + 1
    waited_for = condition.attended + attended
    wanted_since = condition.wanted_since if attended else None
    if attended and wanted_since is None:
        wanted_since = now
    exhausted = policy.max_attempts is not None and waited_for >= policy.max_attempts
    outlasting = wanted_since is not None and now - wanted_since >= STEADY_SECONDS
    tripped_at = None
    if final or exhausted or outlasting:
        tripped_at = condition.tripped_at or failures
    return Condition(
        state="waiting" if policy.enabled else "failed",
        failures=failures,
        attended=waited_for,
        wanted_since=wanted_since,
        tripped_at=tripped_at,
        final=final,
        exhausted=exhausted,
    )


def doublings_of(condition: Condition) -> int:
    """Return how often the pause before the next attempt has doubled.

    Pauses are the first delay while a caller waits, and start from it when the breaker opens.
    """
    if condition.tripped_at is not None:
        return condition.failures - condition.tripped_at
    return 0 if condition.wanted_since is not None else max(0, condition.failures - 1)


def breaker_of(condition: Condition) -> Breaker:
    """Return the breaker's state: `open` spares the server, `half-open` is a probe under way."""
    if condition.state == "failed":
        return "open"
    if condition.tripped_at is None:
        return "closed"
    by_state: dict[State, Breaker] = {"waiting": "open", "connecting": "half-open"}
    return by_state.get(condition.state, "closed")


def may_wait(condition: Condition) -> bool:
    """Return whether a caller without a session should wait for one, if it has the time."""
    if condition.state in {"closed", "failed"}:
        return False
    if breaker_of(condition) == "closed":
        return True
    return not condition.exhausted and (condition.state == "connecting" or not condition.final)


def may_hurry(condition: Condition) -> bool:
    """Return whether a caller may cut the pause short: none has waited for the last attempt."""
    return condition.state == "waiting" and condition.wanted_since is None and may_wait(condition)
