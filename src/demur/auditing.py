"""The auditor's kit: derive from `ClaimsAuditor`, mark methods with `@claims`, `serve` the result or put it into a chain.

from demur.auditing import ClaimsAuditor, claims, Phase, serve

class LengthAuditor(ClaimsAuditor):
    auditor_id = "length"
    version = "1.0"

    @claims(phase=Phase.REQUEST)
    def look(self, request):
        return {"too_long": len(request["prompt"]) > 10_000}

serve(LengthAuditor(), port=8085)
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from demur.audit.config import importing
from demur.audit.sdk import ClaimsAuditor, claims
from demur.model.claim import Claim, ClaimType, Phase

if TYPE_CHECKING:
    from demur.audit.chain import Chain

__all__ = ["Claim", "ClaimType", "ClaimsAuditor", "Phase", "claims", "open_chain", "serve"]


def serve(auditor: ClaimsAuditor, port: int = 8080, *, host: str = "127.0.0.1") -> None:
    """Serve an auditor over HTTP until the process is told to end.

    Does nothing while the module that calls it is being imported for a chain or by `demur auditor`, which serve the
    auditor themselves.
    """
    if importing():
        return
    from demur.audit.server import serve_auditor

    def announce(url: str) -> None:
        sys.stderr.write(f"listening at {url}\n")
        sys.stderr.flush()

    serve_auditor(auditor, host=host, port=port, started=announce)


def open_chain(path: str) -> Chain:
    """Return the chain of an `auditors.yaml`: `await chain.audit(request_input(request))`, and `await chain.close()` at the end."""
    from demur.audit.chains import open_chain as opened

    return opened(path)
