"""What is true about a reply of the simulator, for whoever measures a detector or a client by it?

Laws: the label says what was done, not what was detected; it holds no prompt and no answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from demur.model.exchange import Shape
    from demur.model.verdict import Outcome
    from demur.simulate.scenario import Fault, Way

__all__ = ["Truth"]


@dataclass(frozen=True, slots=True)
class Truth:
    """The label of one reply; `topic` is what the prompt is about, `category` what the reply declines for."""

    id: str
    outcome: Outcome
    way: Way | None
    topic: str
    category: str | None
    style: str | None
    language: str | None
    scenario: str
    fault: Fault | None
    shape: Shape
    model: str
    stream: bool

    def header(self) -> str:
        """Return the label as one header: the outcome, then what else there is to say."""
        said = (("way", self.way), ("category", self.category), ("style", self.style), ("language", self.language))
        named = [f"{name}={value}" for name, value in (*said, ("fault", self.fault)) if value is not None]
        return "; ".join([str(self.outcome), *named, f"topic={self.topic}", f"scenario={self.scenario}"])

    def line(self) -> bytes:
        """Return the label as one line of JSON."""
        return msgspec.json.encode(self) + b"\n"
