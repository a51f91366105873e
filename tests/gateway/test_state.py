"""What an audit comes to under a policy, and what of an exchange goes on record."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.gateway.states import state_of

from demur.audit.claims import decline_causes
from demur.gateway.guard.values import ScanText, StrandText
from demur.gateway.state import ENFORCED, Principal, decide, enforces_on, issue_passport, plain_name, unasked
from demur.model.claim import (
    Audit,
    AuditorRun,
    AuditorStatus,
    Claim,
    ClaimSpec,
    ClaimType,
    Effect,
    FailureMode,
    Phase,
    Trouble,
    Vocabulary,
)
from demur.model.exchange import Channel, Choice, Finish, RefusalPart, Response, TextPart, ThinkingPart, ToolCallPart
from demur.model.passport import DeclineCause, Passport, PhaseRecord
from demur.model.verdict import Cause, Outcome, Verdict
from demur.policy.cedar import PolicySource
from demur.policy.gate import PolicyGate, load_gate
from demur.record.commit import Disclosure
from demur.record.replay import contradiction, hidden_gap
from demur.record.seal import open_sealed, seal

WORDS = Vocabulary(
    (
        ClaimSpec("asked", ClaimType.BOOLEAN, Phase.REQUEST, "a"),
        ClaimSpec("said", ClaimType.CATEGORY, Phase.RESPONSE, "a", sensitive=True),
        ClaimSpec("bad", ClaimType.BOOLEAN, Phase.RESPONSE, "a"),
    )
)
ASKER = Principal("s", "m")
DENY = (
    '@id("r") @decision("{}")\nforbid (principal, action == Action::"response", resource) when {{ context.claims.{} }};'
)
RUN = AuditorRun("a", "1", AuditorStatus.OK, 5)
SALTS = (bytes([number % 256]) * 16 for number in count())


def issue(*phases: tuple[Audit, PhaseRecord], **more: Any) -> tuple[Passport, tuple[Disclosure, ...]]:
    """Return the passport of an exchange with these phases, and what is behind its commitments."""
    state = state_of(principal=ASKER, phases=list(phases), **more)
    return issue_passport(state, config_digest="c" * 64, salts=SALTS)


def gate_of(text: str, **more: str) -> PolicyGate:
    return load_gate((PolicySource("rules", text),), vocabulary=WORDS, **more)  # type: ignore[arg-type]  # the test's own settings


def audit_of(*claims: Claim) -> Audit:
    return Audit(Phase.RESPONSE, claims, claims, (RUN,))


def claim(name: str, *, value: bool | str, sensitive: bool = False) -> Claim:
    kind = ClaimType.BOOLEAN if isinstance(value, bool) else ClaimType.CATEGORY
    return Claim(name, kind, value, Phase.RESPONSE, "a", sensitive=sensitive)


@pytest.mark.parametrize(
    ("effect", "blocks"), [("deny", True), ("redact", True), ("review", False), ("warn", False), ("log", False)]
)
def test_what_blocks(effect: str, blocks: bool) -> None:  # noqa: FBT001 — a table
    """A denial blocks, and so does a redaction that nobody here can make; the rest passes, on record."""
    decision = decide(gate_of(DENY.format(effect, "bad")), audit_of(claim("bad", value=True)), ASKER).decision
    assert (decision.effect in ENFORCED) is blocks
    assert decision.effect.word == effect


def test_a_closed_failure_denies_and_replays() -> None:
    """An auditor that fails closed denies whatever the policy says, and a replay of the record agrees."""
    gate = gate_of(DENY.format("log", "bad"))
    run = replace(RUN, status=AuditorStatus.TIMEOUT, failure_mode="closed")
    trouble = Trouble("a", Phase.RESPONSE, AuditorStatus.TIMEOUT, "timeout", "late", FailureMode.CLOSED)
    audit = Audit(Phase.RESPONSE, runs=(run,), troubles=(trouble,), denials=("auditor `a`: late",))
    record = decide(gate, audit, ASKER)
    assert record.decision.effect is Effect.DENY
    assert record.decision.errors == ("auditor `a`: late",)
    assert contradiction(record, record.context, gate.replay) is None


@pytest.mark.parametrize(("closed", "effect"), [(True, Effect.DENY), (False, Effect.ALLOW)])
def test_auditors_that_cannot_be_asked(closed: bool, effect: Effect) -> None:  # noqa: FBT001 — a table
    """Where nobody can be asked, the exchange is denied or passes with a gap, and either replays."""
    gate = gate_of(DENY.format("log", "bad"))
    audit = unasked(Phase.RESPONSE, closed=closed)
    record = decide(gate, audit, ASKER)
    assert record.decision.effect is effect
    assert bool(audit.gaps) is not closed
    assert contradiction(record, record.context, gate.replay) is None
    passport, _ = issue((audit, record), gaps=list(audit.gaps), blocked=closed)
    assert hidden_gap(passport) is None


@pytest.mark.parametrize(
    ("rule", "holds"),
    [
        ('permit (principal, action == Action::"response", resource);', False),
        (DENY.format("deny", "bad"), True),
        (DENY.format("redact", "bad"), True),
        (DENY.format("warn", "bad"), False),
        ('@decision("deny")\nforbid (principal, action, resource) when { context.claims.asked };', False),
        ('@decision("deny")\nforbid (principal, action, resource) unless { context.claims has asked };', True),
        ('@decision("deny")\nforbid (principal in Label::"x", action, resource);', True),
        ('@decision("deny")\nforbid (principal, action == Action::"request", resource);', False),
        (DENY.format("deny", "nobody_declares_it"), True),
    ],
)
def test_answers_are_held_where_a_rule_could_withhold_them(rule: str, holds: bool) -> None:  # noqa: FBT001 — a table
    """An answer may pass unread only where no rule that blocks could fire on it, and never where only a permit lets it through."""
    assert enforces_on(gate_of(rule), Phase.RESPONSE, WORDS) is holds
    assert enforces_on(gate_of(rule, default="deny"), Phase.RESPONSE, WORDS)


def test_a_scan_sees_every_strand() -> None:
    """All strands of a scan are in the response that auditors see, with the finish reasons known by then."""
    strands = (
        StrandText(0, Channel.TEXT, "", "one ", 0),
        StrandText(0, Channel.TEXT, "1", "two", 0),
        StrandText(0, Channel.REFUSAL, "", "no", 0),
        StrandText(0, Channel.THINKING, "", "hm", 0),
        StrandText(0, Channel.TOOL, "0", "{}", 0),
        StrandText(1, Channel.TEXT, "", "other", 0),
    )
    known = Response("m", (Choice(0, (), Finish.STOP, "stop"),), id="r")
    seen = ScanText(strands).response(known)
    first = (ThinkingPart("hm"), TextPart("one two"), RefusalPart("no"), ToolCallPart("0", "", "{}"))
    assert seen.choices == (Choice(0, first, Finish.STOP, "stop"), Choice(1, (TextPart("other"),)))
    assert seen.id == "r"


@pytest.mark.parametrize(
    ("verdict", "causes"),
    [
        (Verdict(Outcome.COMPLIED, 0.0), ()),
        (Verdict(Outcome.REFUSED, 1.0, cause=Cause.TEXT), (DeclineCause.TEXT_REFUSAL,)),
        (Verdict(Outcome.REFUSED, 1.0, cause=Cause.PROVIDER_REFUSAL), (DeclineCause.PROVIDER_REFUSAL,)),
        (Verdict(Outcome.FILTERED, 1.0, cause=Cause.PROVIDER_FILTER), (DeclineCause.PROVIDER_FILTER,)),
        (Verdict(Outcome.FAILED, 0.0, cause=Cause.PROVIDER_ERROR), (DeclineCause.PROVIDER_ERROR,)),
        (Verdict(Outcome.EMPTY, 0.0), (DeclineCause.EMPTY,)),
        (Verdict(Outcome.UNREAD, 0.0, cause=Cause.NOT_TEXT), (DeclineCause.UNREAD,)),
        (None, ()),
    ],
)
def test_every_cause_by_itself(verdict: Verdict | None, causes: tuple[DeclineCause, ...]) -> None:
    """Each outcome has its own cause, and our block stands beside it, never in its place."""
    assert decline_causes(verdict, blocked=False) == causes
    assert decline_causes(verdict, blocked=True) == (DeclineCause.GATEWAY_BLOCK, *causes)


def test_a_sensitive_value_is_committed_to() -> None:
    """What a claim quotes is not in the passport, and what is behind its commitment is handed out to be kept."""
    gate = gate_of(DENY.format("warn", 'said == "my own words"'))
    audit = audit_of(claim("said", value="my own words", sensitive=True))
    passport, behind = issue((audit, decide(gate, audit, ASKER)))
    sealed = seal(replace(passport, at="2026-01-01T00:00:00Z", signing=passport.signing.NONE), None)
    assert b"my own words" not in sealed
    assert [json.loads(each.text) for each in behind] == ["my own words"]
    assert open_sealed(sealed).entry == replace(passport, at="2026-01-01T00:00:00Z", signing=passport.signing.NONE)


def test_a_phase_that_would_tell_is_left_out() -> None:
    """Where the words that a claim quotes stand elsewhere in the context, the phase is a gap and not a leak."""
    audit = audit_of(claim("said", value="my own words", sensitive=True))
    record = decide(gate_of(DENY.format("warn", "bad")), audit, Principal("my own words", "m"))
    passport, behind = issue((audit, record))
    assert (passport.phases, behind) == ((), ())
    assert [(gap.phase, gap.what) for gap in passport.gaps] == [(Phase.RESPONSE, "unrecorded")]


@given(st.text(st.characters(), max_size=600))
def test_any_name_can_be_written(text: str) -> None:
    """Whatever others call their models, a record can hold it, and an ordinary name stays what it is."""
    name = plain_name(text)
    name.encode()
    assert not text[:256].isascii() or name == text[:256]
