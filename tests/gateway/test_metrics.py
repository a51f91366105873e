"""What the gateway counts, and under which names."""

from __future__ import annotations

from pathlib import Path

from tests.gateway.states import passport_of, phase_of, state_of
from tests.http.test_metrics import samples

from demur.errors import UpstreamTimeoutError
from demur.gateway.metrics import GatewayMetrics, gateway_families
from demur.gateway.state import count_exchange
from demur.model.claim import AuditorRun, AuditorStatus, Decision, Effect, EnforcementGap, Phase
from demur.model.passport import DeclineCause
from demur.model.verdict import Outcome, Verdict


def test_the_gateway_counts_under_its_own_words(tmp_path: Path) -> None:
    """Each call counts one thing; a failure that denied, one that let through and a denial are kept apart."""
    metrics = GatewayMetrics(tmp_path, auditors=("safety",), clients=("ci",))
    run = AuditorRun("safety", "1", AuditorStatus.TIMEOUT, 5, "open")
    gap = EnforcementGap(Phase.RESPONSE, "failed_open", "safety")
    state = state_of(verdict=Verdict(Outcome.REFUSED, 1.0))
    state.passport = passport_of(causes=(DeclineCause.TEXT_REFUSAL,), gaps=(gap,))
    state.phases = [
        phase_of(Phase.REQUEST, Decision(Effect.DENY)),
        phase_of(Phase.RESPONSE, runs=(run,), gaps=(gap,)),
        phase_of(Phase.RESPONSE, denials=("safety timed out",)),
    ]
    count_exchange(metrics, state)
    metrics.count_response("openai_chat", 200, client="ci")
    metrics.count_response("never heard", 451, client="nobody")
    metrics.count_shadow(Phase.REQUEST, Decision(Effect.ALLOW), Decision(Effect.DENY))
    metrics.count_failure("store", opened=True)
    metrics.count_upstream_failure(UpstreamTimeoutError("x", which="read"))
    metrics.count_records(1, 1)
    metrics.count_unauthorised()
    metrics.count_overload()
    metrics.change_in_flight(1)
    metrics.observe_added(Phase.REQUEST, 0.0004)
    metrics.observe_upstream(1.5)
    found = samples(metrics.board.text())
    ones = [
        'demur_requests_total{shape="openai_chat",status="2xx"}',
        'demur_requests_total{shape="other",status="4xx"}',
        'demur_client_requests_total{client="ci"}',
        'demur_client_requests_total{client="other"}',
        'demur_verdicts_total{shape="openai_chat",outcome="refused"}',
        'demur_declines_total{cause="text_refusal"}',
        'demur_decisions_total{phase="request",effect="deny",mode="live"}',
        'demur_decisions_total{phase="request",effect="deny",mode="shadow"}',
        'demur_auditor_turns_total{auditor="safety",status="timeout"}',
        'demur_fail_open_total{part="auditors"}',
        'demur_fail_closed_total{part="auditors"}',
        'demur_fail_open_total{part="store"}',
        'demur_gaps_total{phase="response",what="failed_open"}',
        'demur_upstream_failures_total{fault="timeout"}',
        'demur_records_total{state="written"}',
        'demur_records_total{state="failed"}',
        "demur_unauthorised_total",
        "demur_overload_total",
        "demur_in_flight",
        'demur_added_seconds_bucket{phase="request",le="0.0005"}',
        'demur_upstream_seconds_bucket{le="2.5"}',
    ]
    assert [name for name in ones if found.get(name) != 1] == []


def test_the_series_of_the_gateway_are_few() -> None:
    """With twenty auditors and a hundred clients there are still fewer than a thousand series."""
    names = tuple(f"n{number}" for number in range(100))
    families = gateway_families(auditors=names[:20], clients=names)
    assert sum(len(list(family.label_sets())) for family in families) < 1000
