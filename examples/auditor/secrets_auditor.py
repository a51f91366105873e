"""An auditor of one's own: does a prompt ask for secrets, and does an answer hand one out?

python examples/auditor/secrets_auditor.py                             # serves it at port 8085
demur auditor examples/auditor/secrets_auditor.py:SecretsAuditor       # the same, by the command line
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from demur.auditing import ClaimsAuditor, ClaimType, Phase, claims, serve

if TYPE_CHECKING:
    from collections.abc import Mapping

ASKS = ("api key", "password", "secret key")
KEY = re.compile(r"\b(?:sk|pk)-[A-Za-z0-9]{16,}\b")


class SecretsAuditor(ClaimsAuditor):
    """States what it sees; a policy decides what is done about it."""

    auditor_id = "secrets"
    version = "1.0.0"

    @claims(phase=Phase.REQUEST)
    async def look_at_prompt(self, request: Mapping[str, Any]) -> dict[str, object]:
        """State how much the prompt asks for secrets; the types are learned from the values."""
        prompt = request.get("prompt", "").lower()
        asked = [phrase for phrase in ASKS if phrase in prompt]
        return {"secrets_asked": len(asked) / len(ASKS), "secrets_phrase": asked[0] if asked else None}

    @claims(phase=Phase.RESPONSE, vocabulary={"secret_leaked": ClaimType.BOOLEAN})
    def look_at_answer(self, response: Mapping[str, Any]) -> dict[str, object]:
        """State whether something that looks like a key stands in the answer; the type is declared."""
        return {"secret_leaked": KEY.search(response.get("content", "")) is not None}


serve(SecretsAuditor())
