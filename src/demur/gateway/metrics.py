"""Which metrics the gateway keeps, and where each is counted.

The parts of the refusal rate are counted, never the rate. A decision of the policy, a failure that denied and a failure
that let an exchange through are three counters. Labels are words of ours, and names from the operator's own files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.http.metrics import Family, FamilyKind, MetricsBoard
from demur.model.claim import AuditorStatus, Effect, Phase
from demur.model.passport import DeclineCause, RejectReason
from demur.model.verdict import Outcome

if TYPE_CHECKING:
    from pathlib import Path

    from demur.errors import UpstreamError
    from demur.model.claim import Decision

__all__ = ["GAPS", "GatewayMetrics", "gateway_families"]

_SHAPES = ("openai_chat", "openai_responses", "anthropic", "passed")
_STATUSES = ("2xx", "3xx", "4xx", "5xx")
_PARTS = ("upstream", "auditors", "store", "policy_reload")
GAPS = (
    "failed_open",
    "unscanned",
    "unenforced",
    "beyond_limits",
    "upstream_cut",
    "client_gone",
    "policy_stale",
    "unrecorded",
)
"""Every word for a gap that the gateway can put on record, or count where there is no record to put it on."""
_FAULTS = ("connect", "timeout", "cut", "protocol")
_ADDED_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
_WAITED_S = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_HUNDRED = 100


def gateway_families(*, auditors: tuple[str, ...] = (), clients: tuple[str, ...] = ()) -> tuple[Family, ...]:
    """Return every family, with the auditors and clients that the operator's files name."""
    counter, histogram = FamilyKind.COUNTER, FamilyKind.HISTOGRAM
    phases = tuple(Phase)
    effects = tuple(effect.word for effect in Effect)
    return (
        Family("demur_requests_total", counter, "requests answered", (("shape", _SHAPES), ("status", _STATUSES))),
        # Names from the operator's own file: what clients send is never a label, so that series stay few.
        Family("demur_client_requests_total", counter, "requests by client key", (("client", clients),)),
        Family("demur_unauthorised_total", counter, "requests without a key that may ask"),
        Family("demur_overload_total", counter, "requests refused since too many were running"),
        Family(
            "demur_http_rejected_total",
            counter,
            "requests refused before they were any, by what was wrong",
            (("reason", tuple(RejectReason)),),
        ),
        Family("demur_in_flight", FamilyKind.GAUGE, "exchanges going on"),
        # The parts of the refusal rate, never the rate: parts add up over workers and over time.
        Family(
            "demur_verdicts_total",
            counter,
            "answers judged; the refusal rate is refused and filtered over all",
            (("shape", _SHAPES), ("outcome", tuple(Outcome))),
        ),
        Family("demur_declines_total", counter, "answers withheld, by cause", (("cause", tuple(DeclineCause)),)),
        Family(
            "demur_decisions_total",
            counter,
            "decisions of the policy; those in shadow were not acted on",
            (("phase", phases), ("effect", effects), ("mode", ("live", "shadow"))),
        ),
        Family(
            "demur_shadow_total",
            counter,
            "decisions in force beside those of the policy in the shadow",
            (("phase", phases), ("live", effects), ("shadow", effects)),
        ),
        # Three counters, not one with a label: a failure that let an exchange through must have its own alarm.
        Family("demur_fail_open_total", counter, "failures that let an exchange through", (("part", _PARTS),)),
        Family("demur_fail_closed_total", counter, "failures that denied an exchange", (("part", _PARTS),)),
        Family("demur_gaps_total", counter, "gaps in enforcement on record", (("phase", phases), ("what", GAPS))),
        Family(
            "demur_auditor_turns_total",
            counter,
            "auditors' turns by how they ended",
            (("auditor", auditors), ("status", tuple(AuditorStatus))),
        ),
        Family("demur_upstream_failures_total", counter, "exchanges that the provider failed", (("fault", _FAULTS),)),
        Family("demur_records_total", counter, "records by what became of them", (("state", ("written", "failed")),)),
        Family("demur_added_seconds", histogram, "time that the gateway added", (("phase", phases),), bounds=_ADDED_S),
        Family("demur_upstream_seconds", histogram, "time until the provider's headers", bounds=_WAITED_S),
    )


class GatewayMetrics:
    """The metrics of one gateway, shared by its workers through a folder."""

    def __init__(self, folder: str | Path, *, auditors: tuple[str, ...] = (), clients: tuple[str, ...] = ()) -> None:
        self.board = MetricsBoard(gateway_families(auditors=auditors, clients=clients), folder)

    def count_shadow(self, phase: Phase, live: Decision, shadow: Decision) -> None:
        """Count what a policy in the shadow would have decided, beside what was decided."""
        self.board.add("demur_decisions_total", phase, shadow.effect.word, "shadow")
        self.board.add("demur_shadow_total", phase, live.effect.word, shadow.effect.word)

    def count_response(self, label: str, status: int, *, client: str | None = None) -> None:
        """Count a request by what it was answered with."""
        self.board.add("demur_requests_total", label, f"{status // _HUNDRED}xx")
        if client is not None:
            self.board.add("demur_client_requests_total", client)

    def count_unauthorised(self) -> None:
        """Count a request without a known key."""
        self.board.add("demur_unauthorised_total")

    def count_overload(self) -> None:
        """Count a request that was one too many."""
        self.board.add("demur_overload_total")

    def count_rejection(self, reason: RejectReason) -> None:
        """Count bytes that were no valid request."""
        self.board.add("demur_http_rejected_total", reason)

    def change_in_flight(self, change: int) -> None:
        """Count an exchange in (1) or out (-1)."""
        self.board.add("demur_in_flight", by=change)

    def count_failure(self, part: str, *, opened: bool) -> None:
        """Count a failure of ours, by whether it let the exchange through."""
        self.board.add("demur_fail_open_total" if opened else "demur_fail_closed_total", part)

    def count_gap(self, phase: Phase, what: str) -> None:
        """Count a gap in enforcement."""
        self.board.add("demur_gaps_total", phase, what)

    def count_upstream_failure(self, error: UpstreamError) -> None:
        """Count an exchange that the provider failed."""
        self.board.add("demur_upstream_failures_total", error.fault)

    def count_records(self, written: int, lost: int) -> None:
        """Count records by what became of them."""
        self.board.add("demur_records_total", "written", by=written)
        self.board.add("demur_records_total", "failed", by=lost)

    def observe_added(self, phase: Phase, seconds: float) -> None:
        """Count the time that the gateway added in a phase."""
        self.board.observe("demur_added_seconds", seconds, phase)

    def observe_upstream(self, seconds: float) -> None:
        """Count the time until the provider's headers."""
        self.board.observe("demur_upstream_seconds", seconds)
