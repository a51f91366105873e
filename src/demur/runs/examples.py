"""The few rows of runs that are shown: flipped pairs beside each other, and the phrases that made refusals so.

Engines count without texts and read again only these rows, so that the same rows give the same examples on every engine.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from demur.detect.check import classify_text
from demur.model.comparison import Flip, FlipSide, Pairing
from demur.model.estimate import Direction
from demur.model.run import PhraseCount, Traced, UnreadExample

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from demur.detect.check import TextJudge
    from demur.model.verdict import Outcome

__all__ = [
    "MAX_REFUSALS_READ",
    "MAX_UNREAD_SHOWN",
    "Excerpt",
    "flip_of",
    "phrase_counts",
    "shown_key",
    "still_flipped",
    "unread_example",
]

MAX_REFUSALS_READ = 2000
"""Refusals that are read for their phrases."""
MAX_UNREAD_SHOWN = 3
"""Responses of a run that could not be read and are shown as examples."""
_PHRASES_SHOWN = 20

Excerpt = tuple[str, int | None, Traced]
"""The source's name, the line, and the exchange there."""


def shown_key(key: str, pairing: Pairing) -> str:
    """Return what a pair is called: a hash of a prompt is shown as one."""
    return f"prompt {int(key) & (2**64 - 1):016x}" if pairing is Pairing.PROMPT else key


def flip_of(
    key: str,
    direction: Direction,
    *,
    before: Excerpt,
    after: Excerpt,
    judge: TextJudge | None,
    fields: Sequence[str],
    prompt: str | None = None,
) -> Flip:
    """Return both sides of a flipped pair, judged again; `prompt` is the request's where the rows have none."""
    request = before[2].exchange.request or after[2].exchange.request
    sides = _side(before, judge), _side(after, judge)
    asked = request.prompt if request else prompt
    # A field that differs between the runs shows both values.
    old, new = dict(before[2].fields), dict(after[2].fields)
    values = ((name, dict.fromkeys(v for v in (old.get(name), new.get(name)) if v)) for name in fields)
    shown = tuple((name, " → ".join(both)) for name, both in values if both)
    return Flip(key, asked, direction, *sides, shown)


def still_flipped(flip: Flip, counted: Sequence[Outcome]) -> bool:
    """Return whether what is read now is what was counted: a file rewritten meanwhile would show other texts."""
    now = (flip.baseline.verdict.outcome in counted, flip.candidate.verdict.outcome in counted)
    return now == (flip.direction is Direction.DECREASE, flip.direction is Direction.INCREASE)


def phrase_counts(refusals: Iterable[Excerpt], judge: TextJudge | None) -> tuple[tuple[PhraseCount, ...], int]:
    """Return what made refusals so, most frequent first, and how many were read for it."""
    counts: Counter[tuple[str, str]] = Counter()
    read = 0
    for _, _, traced in refusals:
        verdict, _ = classify_text(traced.exchange.response, judge=judge)
        read += 1
        raising = {(f.rule, f.category) for f in verdict.findings if f.weight > 0}
        said = {(f"{s.path} = {s.value}", str(s.kind)) for s in verdict.signals if s.blocked}
        counts.update(raising | said)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(PhraseCount(phrase, category, n) for (phrase, category), n in ordered[:_PHRASES_SHOWN]), read


def unread_example(row: Excerpt, judge: TextJudge | None) -> UnreadExample:
    """Return where a response stands that could not be read, and what is there."""
    source, line, traced = row
    verdict, _ = classify_text(traced.exchange.response, judge=judge)
    return UnreadExample(source, line, verdict.detail or str(verdict.outcome))


def _side(row: Excerpt, judge: TextJudge | None) -> FlipSide:
    source, line, traced = row
    # Judged a second time, by the detector of single texts: the batch that counted the row keeps neither texts nor evidence, since
    # those of a whole run would not fit into memory. Both detectors evaluate the same table of cues.
    verdict, text = classify_text(traced.exchange.response, judge=judge)
    return FlipSide(text, verdict, source, line)
