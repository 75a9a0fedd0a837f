"""The life of a connection, as a table and as rules that no order of events breaks."""

from __future__ import annotations

from typing import cast, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from plait.client.config.servers import ReconnectPolicy
from plait.client.connections.states import (
    STEADY_SECONDS,
    Breaker,
    Condition,
    Signal,
    State,
    breaker_of,
    doublings_of,
    may_hurry,
    may_wait,
    step,
)

STATES: tuple[State, ...] = get_args(State)
SIGNALS: tuple[Signal, ...] = get_args(Signal)
POLICY = ReconnectPolicy()
OFF = ReconnectPolicy(enabled=False)
AT_MOST_3 = ReconnectPolicy(max_attempts=3)
NEW = Condition()

TRANSITIONS: dict[tuple[State, Signal], State] = {
    ("idle", "requested"): "connecting",
    ("connecting", "opened"): "ready",
    ("connecting", "refused"): "waiting",
    ("connecting", "idled"): "idle",  # nobody waits for its turn any more
    ("ready", "idled"): "idle",
    ("ready", "lost"): "waiting",  # before it was proven; "lost" afterwards
    ("lost", "rested"): "connecting",
    ("waiting", "rested"): "connecting",
    ("failed", "rested"): "connecting",
    ("waiting", "cured"): "connecting",
    ("failed", "cured"): "connecting",
    ("waiting", "idled"): "idle",
    **{(state, "closed"): "closed" for state in STATES},
}

conditions = st.builds(
    Condition,
    state=st.sampled_from(STATES),
    proven=st.booleans(),
    failures=st.integers(0, 10),
    attended=st.integers(0, 10),
    wanted_since=st.none() | st.floats(0, 100),
    tripped_at=st.none() | st.integers(1, 10),
    final=st.booleans(),
    exhausted=st.booleans(),
)
policies = st.builds(
    ReconnectPolicy, enabled=st.booleans(), max_attempts=st.none() | st.integers(1, 6)
)
signals = st.sampled_from(SIGNALS)


def _life(signals: str, start: Condition = NEW, policy: ReconnectPolicy = POLICY) -> Condition:
    """Let these signals happen: `refused` while callers wait, or `alone`, or `final`."""
    condition = start
    for word in signals.split():
        signal = cast("Signal", "refused" if word in {"alone", "final"} else word)
        final, attended = word == "final", word != "alone"
        condition = step(condition, signal, policy, final=final, attended=attended)
    return condition


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("signal", SIGNALS)
def test_every_signal_in_every_state_leads_where_the_table_says(
    state: State, signal: Signal
) -> None:
    before = Condition(state, failures=1)

    after = step(before, signal, POLICY)

    if (state, signal) in TRANSITIONS:
        assert after.state == TRANSITIONS[state, signal]
    elif (state, signal) == ("ready", "proven"):
        assert after == Condition("ready", proven=True)
    else:
        assert after == before


@given(conditions, signals, policies, st.booleans(), st.booleans())
def test_closed_is_for_ever(
    condition: Condition, signal: Signal, policy: ReconnectPolicy, final: bool, attended: bool
) -> None:
    closed = step(condition, "closed", policy)

    assert closed.state == "closed"
    assert step(closed, signal, policy, final=final, attended=attended) == closed
    assert not may_wait(closed)
    assert not may_hurry(closed)


@given(conditions, signals, policies, st.booleans(), st.booleans())
def test_failures_are_counted_one_by_one_or_forgotten(
    condition: Condition, signal: Signal, policy: ReconnectPolicy, final: bool, attended: bool
) -> None:
    after = step(condition, signal, policy, final=final, attended=attended)

    assert after.failures in {0, condition.failures, condition.failures + 1}
    if after.failures > condition.failures:
        assert signal in {"refused", "lost"}
    if after.failures < condition.failures:
        assert signal in {"proven", "idled", "cured"} or (signal == "lost" and condition.proven)


@pytest.mark.parametrize(
    ("condition", "breaker", "waits", "hurries"),
    [
        (Condition(), "closed", True, False),
        (Condition("connecting"), "closed", True, False),
        (Condition("connecting", failures=2, attended=2), "closed", True, False),
        (Condition("connecting", failures=3, tripped_at=3), "half-open", True, False),
        (Condition("connecting", failures=3, tripped_at=3, final=True), "half-open", True, False),
        (
            Condition("connecting", failures=3, tripped_at=3, exhausted=True),
            "half-open",
            False,
            False,
        ),
        (Condition("waiting", failures=2), "closed", True, True),
        (Condition("waiting", failures=2, attended=1), "closed", True, True),
        (Condition("waiting", failures=2, attended=1, wanted_since=0.0), "closed", True, False),
        (Condition("waiting", failures=3, wanted_since=0.0, tripped_at=3), "open", True, False),
        (Condition("waiting", failures=3, tripped_at=3, exhausted=True), "open", False, False),
        (Condition("waiting", failures=1, final=True, tripped_at=1), "open", False, False),
        (Condition("ready", failures=3, tripped_at=3), "closed", True, False),
        (Condition("lost"), "closed", True, False),
        (Condition("failed"), "open", False, False),
        (Condition("closed"), "closed", False, False),
    ],
)
def test_who_may_wait_or_hurry_and_what_the_breaker_says(
    condition: Condition, breaker: Breaker, waits: bool, hurries: bool
) -> None:
    assert breaker_of(condition) == breaker
    assert may_wait(condition) is waits
    assert may_hurry(condition) is hurries


@pytest.mark.parametrize(
    ("signals", "policy", "expected"),
    [
        ("requested opened proven lost", POLICY, "lost, closed, 0 failures, waits"),
        ("requested opened proven lost rested", POLICY, "connecting, closed, 0 failures, waits"),
        # Before it is proven it counts as refused, and a proof is of its own session only.
        ("requested opened lost", POLICY, "waiting, closed, 1 failures, waits"),
        (
            "requested opened proven lost rested opened lost",
            POLICY,
            "waiting, closed, 1 failures, waits",
        ),
        # Attempts that nobody waits for never open the breaker.
        ("requested " + "alone rested " * 20, POLICY, "connecting, closed, 20 failures, waits"),
        # It stays open until a session is proven.
        (
            "requested " + "refused rested " * 3 + "opened lost",
            AT_MOST_3,
            "waiting, open, 4 failures, leaves",
        ),
        (
            "requested " + "refused rested " * 3 + "opened proven lost",
            AT_MOST_3,
            "lost, closed, 0 failures, waits",
        ),
        # What waiting cannot cure opens it at once.
        ("requested final", POLICY, "waiting, open, 1 failures, leaves"),
        ("requested final cured", POLICY, "connecting, closed, 0 failures, waits"),
        # A session closed for idling leaves no grudge.
        (
            "requested " + "refused rested " * 3 + "opened idled",
            AT_MOST_3,
            "idle, closed, 0 failures, waits",
        ),
        # Without reconnecting, a failure is the end.
        ("requested refused", OFF, "failed, open, 1 failures, leaves"),
        ("requested opened lost", OFF, "failed, open, 1 failures, leaves"),
        ("requested opened proven lost", OFF, "failed, open, 1 failures, leaves"),
    ],
)
def test_what_a_life_leads_to(signals: str, policy: ReconnectPolicy, expected: str) -> None:
    after = _life(signals, policy=policy)

    waits = "waits" if may_wait(after) else "leaves"
    assert f"{after.state}, {breaker_of(after)}, {after.failures} failures, {waits}" == expected


def test_a_caller_that_was_in_use_cannot_hurry_the_next_attempt() -> None:
    assert not may_hurry(_life("requested opened lost"))
    assert may_hurry(_life("requested alone"))


def test_a_session_that_opens_again_forgets_that_the_last_refusal_was_final() -> None:
    refused = _life("requested final")

    assert refused.final
    assert not _life("rested opened", refused).final


@pytest.mark.parametrize("attempts", [1, 2, 3, 5])
def test_the_breaker_opens_after_as_many_attempts_as_callers_may_wait_for(attempts: int) -> None:
    policy = ReconnectPolicy(max_attempts=attempts)
    condition = _life("requested", policy=policy)
    doublings: list[int] = []
    for tried in range(1, attempts + 4):
        condition = _life("refused", condition, policy)
        doublings.append(doublings_of(condition))
        assert breaker_of(condition) == ("open" if tried >= attempts else "closed")
        condition = _life("rested", condition, policy)
        assert breaker_of(condition) == ("half-open" if tried >= attempts else "closed")

    assert doublings == [*[0] * attempts, 1, 2, 3]


def test_pauses_stay_the_same_for_a_minute_of_waiting_callers_then_double() -> None:
    condition = _life("requested")
    seen: list[tuple[int, Breaker]] = []
    for now in (0, 1, 30, STEADY_SECONDS, STEADY_SECONDS + 1, STEADY_SECONDS + 3):
        condition = step(condition, "refused", POLICY, attended=True, now=now)
        seen.append((doublings_of(condition), breaker_of(condition)))
        assert may_wait(condition)
        condition = step(condition, "rested", POLICY)
    assert seen == [*[(0, "closed")] * 3, (0, "open"), (1, "open"), (2, "open")]

    # An attempt that nobody waits for begins another minute.
    alone = step(condition, "refused", POLICY, attended=False, now=100)
    wanted = step(_life("rested", alone), "refused", POLICY, attended=True, now=101)

    assert may_hurry(alone)
    assert (breaker_of(wanted), doublings_of(wanted)) == ("closed", 0)


def test_pauses_start_afresh_when_a_caller_comes_to_wait() -> None:
    alone = _life("requested " + "alone rested " * 5)

    assert doublings_of(_life("alone", alone)) == 5
    assert doublings_of(_life("refused", alone)) == 0


class Life(RuleBasedStateMachine):
    """Any life a connection may lead."""

    def __init__(self) -> None:
        super().__init__()
        self.policy = POLICY
        self.condition = Condition()
        self.refusals = 0
        self.attended = 0
        self.was_final = False
        """Counted apart, and only since the last proof."""
        self.was_closed = False
        self.now = 0.0

    @initialize(policy=policies)
    def configured(self, policy: ReconnectPolicy) -> None:
        self.policy = policy

    @rule(signal=signals, final=st.booleans(), attended=st.booleans(), seconds=st.floats(0, 100))
    def happens(self, signal: Signal, final: bool, attended: bool, seconds: float) -> None:
        before = self.condition
        self.now += seconds
        self.condition = step(
            before, signal, self.policy, final=final, attended=attended, now=self.now
        )
        self.was_closed = self.was_closed or signal == "closed"
        if before.state == "ready" and signal == "proven":
            self.refusals, self.attended, self.was_final = 0, 0, False
        elif before.state == "connecting" and signal == "refused":
            self.refusals += 1
            self.attended += attended
            self.was_final = self.was_final or final
        elif before.state == "ready" and signal == "lost":
            self.refusals += not (before.proven and self.policy.enabled)

    @invariant()
    def no_more_failures_are_held_against_it_than_there_were(self) -> None:
        assert 0 <= self.condition.attended <= self.condition.failures <= self.refusals

    @invariant()
    def closed_is_for_ever(self) -> None:
        assert (self.condition.state == "closed") == self.was_closed

    @invariant()
    def only_switching_reconnection_off_ends_in_failure(self) -> None:
        if self.policy.enabled:
            assert self.condition.state != "failed"
        else:
            assert self.condition.state not in {"waiting", "lost"}

    @invariant()
    def an_open_breaker_has_a_reason(self) -> None:
        if breaker_of(self.condition) == "open":
            most = self.policy.max_attempts
            enough = most is not None and self.attended >= most
            outlasted = self.now >= STEADY_SECONDS
            assert enough or outlasted or self.was_final or not self.policy.enabled

    @invariant()
    def pauses_never_shrink_below_the_first(self) -> None:
        assert 0 <= doublings_of(self.condition) <= max(0, self.refusals)


Life.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
test_no_order_of_events_breaks_the_rules = Life.TestCase
