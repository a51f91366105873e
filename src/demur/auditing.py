"""The auditor's kit: derive from `ClaimsAuditor`, mark methods with `@claims`, `serve` the result or put it into a chain.

from demur.auditing import ClaimsAuditor, claims, Phase, serve

class LengthAuditor(ClaimsAuditor):
    auditor_id = "length"
    version = "1.0"

    @claims(phase=Phase.REQUEST)
    def look(self, request):
        return {"too_long": len(request["prompt"]) > 10_000}

serve(LengthAuditor())
"""

from __future__ import annotations

from demur.audit.kit import open_chain, serve
from demur.audit.sdk import ClaimsAuditor, claims
from demur.model.claim import Claim, ClaimType, Phase

__all__ = ["Claim", "ClaimType", "ClaimsAuditor", "Phase", "claims", "open_chain", "serve"]
