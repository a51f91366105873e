"""What do rows that are read again show? Flipped pairs beside each other, and the phrases that made refusals so.

Laws: engines count without texts, and read again only the few rows that are shown; what is read is judged anew, and a pair that no
longer flips (its file was rewritten, its query gave other rows) is not shown; the same rows give the same examples on every engine.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from demur.detect.check import classify_text
from demur.model.comparison import Flip, FlipSide, Pairing
from demur.model.estimate import Direction
from demur.model.run import PhraseCount, Traced

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from demur.detect.interface import TextJudge
    from demur.model.verdict import Outcome

__all__ = ["MOST_READ", "Reread", "flip_shown", "phrase_counts", "shown_key", "still_flipped"]

MOST_READ = 2000
"""Refusals that are read for their phrases."""
_PHRASES_SHOWN = 20

Reread = tuple[str, int | None, Traced]
"""The source's name, the line, and the exchange there."""


def shown_key(key: str, pairing: Pairing) -> str:
    """Return what a pair is called: a hash of a prompt is shown as one."""
    return f"prompt {int(key) & (2**64 - 1):016x}" if pairing is Pairing.PROMPT else key


def flip_shown(
    key: str,
    direction: Direction,
    *,
    before: Reread,
    after: Reread,
    judge: TextJudge | None,
    fields: Sequence[str],
    prompt: str | None = None,
) -> Flip:
    """Return both sides of a flipped pair, judged anew; `prompt` is what was asked where the rows do not say it."""
    request = before[2].exchange.request or after[2].exchange.request
    sides = _side(before, judge), _side(after, judge)
    asked = request.prompt if request else prompt
    return Flip(key, asked, direction, *sides, _changed_fields(before[2], after[2], fields))


def still_flipped(flip: Flip, counted: Sequence[Outcome]) -> bool:
    """Return whether what is read now is what was counted: a file rewritten meanwhile would show other texts."""
    now = (flip.baseline.verdict.outcome in counted, flip.candidate.verdict.outcome in counted)
    return now == (flip.direction is Direction.DECREASE, flip.direction is Direction.INCREASE)


def phrase_counts(refusals: Iterable[Reread], judge: TextJudge | None) -> tuple[tuple[PhraseCount, ...], int]:
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


def _changed_fields(before: Traced, after: Traced, names: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return the fields of a pair that people cut by; one that differs between the runs shows both values."""
    old, new = dict(before.fields), dict(after.fields)
    values = ((name, dict.fromkeys(v for v in (old.get(name), new.get(name)) if v)) for name in names)
    return tuple((name, " → ".join(both)) for name, both in values if both)


def _side(row: Reread, judge: TextJudge | None) -> FlipSide:
    source, line, traced = row
    verdict, text = classify_text(traced.exchange.response, judge=judge)
    return FlipSide(text, verdict, source, line)
