"""The plainest auditor there is: says whether one phrase stands anywhere in an answer, thoughts and tool calls included."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.gateway.guard.conformance import PHRASE

from demur.auditing import ClaimsAuditor, Phase, claims
from demur.model.exchange import Response, ToolCallPart

if TYPE_CHECKING:
    from demur.audit.subjects import Handed


class PhraseAuditor(ClaimsAuditor):
    """States `forbidden`."""

    auditor_id = "phrases"
    version = "1"
    vocabulary = {"forbidden": "boolean"}  # noqa: RUF012 — as users write it

    @claims(phase=Phase.RESPONSE)
    def look(self, response: Handed) -> dict[str, bool]:
        """State whether the phrase was said."""
        source = response.source
        assert isinstance(source, Response)
        texts = [
            part.arguments if isinstance(part, ToolCallPart) else getattr(part, "text", "")
            for choice in source.choices
            for part in choice.parts
        ]
        return {"forbidden": any(PHRASE in text for text in texts)}
