"""The plainest auditor there is: says whether one phrase stands anywhere in an answer, thoughts and tool calls included."""

from __future__ import annotations

from tests.gateway.guard.conformance import PHRASE

from demur.audit.inputs import AuditorInput
from demur.auditing import ClaimsAuditor, Phase, claims
from demur.model.exchange import ToolCallPart


class PhraseAuditor(ClaimsAuditor):
    """States `forbidden`."""

    auditor_id = "phrases"
    version = "1"
    vocabulary = {"forbidden": "boolean"}  # noqa: RUF012 — as users write it

    @claims(phase=Phase.RESPONSE, typed=True)
    def look(self, given: AuditorInput) -> dict[str, bool]:
        """State whether the phrase was said."""
        assert given.response is not None
        texts = [
            part.arguments if isinstance(part, ToolCallPart) else getattr(part, "text", "")
            for choice in given.response.choices
            for part in choice.parts
        ]
        return {"forbidden": any(PHRASE in text for text in texts)}
