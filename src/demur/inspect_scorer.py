"""The scorer for Inspect, under the name that users import it by."""

from __future__ import annotations

from demur.plugins.inspect import demur_refusal, outcome_share, refusal_rate

__all__ = ["demur_refusal", "outcome_share", "refusal_rate"]
