"""The life of a connection, as a table and as rules that no order of events breaks."""

from __future__ import annotations

from typing import get_args

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
REFUSED: tuple[Signal, ...] = ("refused", "rested")

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


def _life(
    *signals: Signal,
    start: Condition | None = None,
    policy: ReconnectPolicy = POLICY,
    final: bool = False,
    attended: bool = True,
) -> Condition:
    """Let these signals happen one after the other."""
    condition = start or Condition()
    for signal in signals:
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


def test_a_proven_session_that_is_lost_is_opened_again_at_once() -> None:
    lost = _life("requested", "opened", "proven", "lost")

    assert lost == Condition("lost")
    assert may_wait(lost)
    assert step(lost, "rested", POLICY).state == "connecting"


def test_a_session_lost_before_it_was_proven_counts_as_refused() -> None:
    lost = _life("requested", "opened", "lost")

    assert (lost.state, lost.failures, lost.attended) == ("waiting", 1, 0)
    assert not may_hurry(lost)


def test_a_proof_holds_for_its_own_session_only() -> None:
    again = _life("requested", "opened", "proven", "lost", "rested", "opened")

    assert not again.proven
    assert step(again, "lost", POLICY).failures == 1


@pytest.mark.parametrize("attempts", [1, 2, 3, 5])
def test_the_breaker_opens_after_as_many_attempts_as_callers_may_wait_for(attempts: int) -> None:
    policy = ReconnectPolicy(max_attempts=attempts)
    condition = _life("requested", policy=policy)
    for tried in range(1, attempts + 1):
        condition = step(condition, "refused", policy, attended=True)
        assert breaker_of(condition) == ("open" if tried == attempts else "closed")
        condition = step(condition, "rested", policy)
        assert breaker_of(condition) == ("half-open" if tried == attempts else "closed")


def test_attempts_that_nobody_waits_for_never_open_the_breaker() -> None:
    alone = _life("requested", *REFUSED * 20, attended=False)

    assert alone.failures == 20
    assert breaker_of(alone) == "closed"
    assert may_wait(alone)


def test_the_breaker_stays_open_until_a_session_is_proven() -> None:
    policy = ReconnectPolicy(max_attempts=3)
    tripped = _life("requested", *REFUSED * 3, policy=policy)

    unproven = _life("opened", "lost", start=tripped, policy=policy)
    proven = _life("opened", "proven", "lost", start=tripped, policy=policy)

    assert breaker_of(unproven) == "open"
    assert breaker_of(proven) == "closed"


def test_a_final_refusal_opens_the_breaker_at_once() -> None:
    refused = _life("requested", "refused", final=True, attended=False)

    assert breaker_of(refused) == "open"
    assert refused.final


def test_a_session_that_opens_again_forgets_that_the_last_refusal_was_final() -> None:
    refused = _life("requested", "refused", final=True)

    assert not _life("rested", "opened", start=refused).final


@pytest.mark.parametrize(
    "signals",
    [
        ["requested", "refused"],
        ["requested", "opened", "lost"],
        ["requested", "opened", "proven", "lost"],
    ],
    ids=" ".join,
)
def test_without_reconnecting_a_failure_is_the_end(signals: list[Signal]) -> None:
    failed = _life(*signals, policy=OFF)

    assert failed.state == "failed"
    assert breaker_of(failed) == "open"
    assert not may_wait(failed)


def test_what_was_cured_is_tried_at_once_and_waited_for() -> None:
    refused = _life("requested", "refused", final=True)
    assert not may_wait(refused)

    assert may_wait(_life("cured", start=refused))


def test_a_session_closed_for_idling_leaves_no_grudge() -> None:
    tripped = _life("requested", *REFUSED * 3)

    idle = _life("opened", "idled", start=tripped)

    assert may_wait(idle)
    assert may_wait(step(idle, "requested", POLICY))


def test_pauses_stay_the_same_for_a_minute_of_waiting_callers_then_double() -> None:
    condition = _life("requested")
    seen: list[tuple[int, Breaker]] = []
    for now in (0, 1, 30, STEADY_SECONDS, STEADY_SECONDS + 1, STEADY_SECONDS + 3):
        condition = step(condition, "refused", POLICY, attended=True, now=now)
        seen.append((doublings_of(condition), breaker_of(condition)))
        assert may_wait(condition)
        condition = step(condition, "rested", POLICY)

    assert seen == [*[(0, "closed")] * 3, (0, "open"), (1, "open"), (2, "open")]


def test_an_attempt_that_nobody_waits_for_begins_another_minute() -> None:
    outlasted = _life("requested")
    for now in (0, STEADY_SECONDS):
        outlasted = step(outlasted, "refused", POLICY, attended=True, now=now)
        outlasted = step(outlasted, "rested", POLICY)

    alone = step(outlasted, "refused", POLICY, attended=False, now=100)
    wanted = _life("rested", start=alone)
    wanted = step(wanted, "refused", POLICY, attended=True, now=101)

    assert may_hurry(alone)
    assert breaker_of(wanted) == "closed"
    assert doublings_of(wanted) == 0


def test_pauses_double_for_callers_that_the_policy_lets_wait_for_a_few_attempts() -> None:
    policy = ReconnectPolicy(max_attempts=3)
    condition = _life("requested", policy=policy)
    doublings: list[int] = []
    for _ in range(6):
        condition = step(condition, "refused", policy, attended=True)
        doublings.append(doublings_of(condition))
        condition = step(condition, "rested", policy)

    assert doublings == [0, 0, 0, 1, 2, 3]


def test_pauses_start_afresh_when_a_caller_comes_to_wait() -> None:
    alone = _life("requested", *REFUSED * 5, attended=False)
    assert doublings_of(alone) == 4

    first = _life("rested", "refused", start=alone)

    assert doublings_of(first) == 0


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
