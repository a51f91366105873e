"""A judge's verdicts on both runs as rates, with people's labels of some pairs beside them.

Whatever the rubric, people's labels correct the judge once there are enough of them (`measure/labels.py`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from demur.axes.results import RateRows, counts_of, rate_result, row_design_effect
from demur.axes.rubric import RubricAsking, RubricVerdict, pair_ask, single_ask
from demur.errors import UsageError
from demur.measure.labels import corrected_difference
from demur.measure.rates import wilson
from demur.model.axes import AbsentAxis, AxisDetail, AxisFlag, AxisName, RubricMode
from demur.model.comparison import Missing
from demur.model.estimate import Flag
from demur.model.labels import LabelCell, LabelledUnit, LabelSample

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from demur.axes.pairs import AxisPairs
    from demur.axes.rubric import HumanVerdict, RubricJudge
    from demur.model.axes import AxisResult, Rubric
    from demur.model.comparison import PairNames, ShownTexts

    Sides = tuple[RubricVerdict | None, RubricVerdict | None]

__all__ = ["judge_rubric"]

_VERDICTS = ((0, 0), (0, 1), (1, 0), (1, 1))
_PAIRS_AT_ONCE = 512  # whose texts are held in memory: enough to keep a judge busy; afterwards only verdicts are kept
_WORSE, _SAME = "worse", "same"
_SWAPPED = {"first_worse": "second_worse", "second_worse": "first_worse"}
_AGREEMENT = "agreement with people"
_TURNED = "it contradicts itself on every pair when the answers change places"


def judge_rubric(
    pairs: AxisPairs,
    rubric: Rubric,
    judge: RubricJudge,
    *,
    human: Sequence[HumanVerdict] = (),
    alpha: float = 0.05,
    show: int = 20,
) -> tuple[AxisResult | AbsentAxis, ...]:
    """Return an axis for each bad label of a rubric, or one for a pairwise rubric; absent where no verdict came back."""
    asking = RubricAsking(rubric, judge)
    pairwise = rubric.mode is RubricMode.PAIRWISE
    sides, turned = _judge_pairs(pairs, asking) if pairwise else (_judge_singly(pairs, asking), 0)
    if not any(before and after for before, after in sides):
        absent = AbsentAxis(
            AxisName.JUDGE, f"judge/{rubric.name}", f"the judge gave no verdict that counts: {(asking.why or _TURNED)}"
        )
        return (absent,)
    bad = [_WORSE] if pairwise else [label.name for label in rubric.labels if label.bad]
    people = _People(human, alpha, by_pair=pairwise)
    results = []
    for label in bad:
        name = f"judge/{rubric.name}" + (f"/{label}" if len(bad) > 1 else "")
        result = _label_result(pairs, sides, label, name=name, alpha=alpha, show=show)
        results.append(people.held_against(result, pairs.names, sides, label))
    usage = asking.usage()
    usage_details = (
        AxisDetail("questions to the judge", float(usage.asked), f"{usage.cached} from the cache, {usage.failed} lost"),
        AxisDetail("calls", float(usage.calls)),
        AxisDetail("tokens", float(usage.input_tokens + usage.output_tokens)),
        AxisDetail("cost", usage.cost, "" if usage.cost is not None else "no price is set"),
    )
    places = AxisDetail("verdicts that turned with the places", float(turned), f"of {len(pairs):,} pairs")
    own_details: tuple[AxisDetail, ...] = (places,)
    if not pairwise:
        score = {label.name: label.score for label in rubric.labels}
        known = [(score[before.label], score[after.label]) for before, after in sides if before and after]
        before, after = (float(np.mean(side)) for side in zip(*known, strict=True))
        own_details = (
            AxisDetail("mean score, baseline", before, "0 worst, 1 best"),
            AxisDetail("mean score, candidate", after),
        )
    details = (*own_details, *usage_details)
    flags = (AxisFlag.POSITION_BIAS,) if turned else ()
    return tuple(replace(r, details=(*r.details, *details), flags=(*r.flags, *flags)) for r in results)


def _judge_singly(pairs: AxisPairs, asking: RubricAsking) -> list[Sides]:
    """Return the verdicts on both responses of each pair."""
    sides: list[Sides] = []
    for shown in _texts_in_turn(pairs):
        asks = [single_ask(asking.rubric, side.prompt, side.answer) for both in shown for side in both]
        verdicts = asking.verdicts_on(asks)
        sides += zip(verdicts[::2], verdicts[1::2], strict=True)
    return sides


def _judge_pairs(pairs: AxisPairs, asking: RubricAsking) -> tuple[list[Sides], int]:
    """Return which response of each pair is worse, if the judge says so in both orders, and how often it does not."""
    sides: list[Sides] = []
    turned = 0
    for shown in _texts_in_turn(pairs):
        asks = [
            pair_ask(asking.rubric, before.prompt, answers)
            for before, after in shown
            for answers in ((before.answer, after.answer), (after.answer, before.answer))
        ]
        verdicts = asking.verdicts_on(asks)
        for plain, swapped in zip(verdicts[::2], verdicts[1::2], strict=True):
            if plain is None or swapped is None:
                sides.append((None, None))
            # Judges prefer a place, so one that contradicts itself when the responses change places has given no verdict.
            elif _SWAPPED.get(swapped.label, swapped.label) != plain.label:
                turned += 1
                sides.append((None, None))
            else:
                words = (_WORSE if plain.label == at else _SAME for at in ("first_worse", "second_worse"))
                first, second = (RubricVerdict(word, plain.reason) for word in words)
                sides.append((first, second))
    return sides, turned


def _texts_in_turn(pairs: AxisPairs) -> Iterator[list[tuple[ShownTexts, ShownTexts]]]:
    if pairs.texts is None:
        raise UsageError("a judge needs the texts of the pairs")
    for start in range(0, len(pairs), _PAIRS_AT_ONCE):
        yield [pairs.texts(i) for i in range(start, min(start + _PAIRS_AT_ONCE, len(pairs)))]


def _label_result(
    pairs: AxisPairs, sides: Sequence[Sides], label: str, *, name: str, alpha: float, show: int
) -> AxisResult:
    # A pair without a verdict on either side is missing as a whole; what is known of it bounds the difference.
    unknown = [(before, after) for before, after in sides if before is None or after is None]
    missing = Missing(
        baseline_known_abstained=sum(b is not None and b.label == label for b, _ in unknown),
        baseline_known_answered=sum(b is not None and b.label != label for b, _ in unknown),
        candidate_known_abstained=sum(c is not None and c.label == label for _, c in unknown),
        candidate_known_answered=sum(c is not None and c.label != label for _, c in unknown),
        nothing_known=sum(b is None and c is None for b, c in unknown),
    )
    rows = _label_rows(pairs.names, sides, label)
    return rate_result(AxisName.JUDGE, name, rows, missing=missing, lost=pairs.failed, alpha=alpha, show=show)


def _label_rows(names: PairNames, sides: Sequence[Sides], label: str) -> RateRows:
    """Return the pairs with both verdicts, and on which side each has a label."""
    known = [(i, before, after) for i, (before, after) in enumerate(sides) if before and after]
    places = np.array([i for i, _, _ in known], dtype=np.int64)

    def sentence(at: int) -> str:
        _, before, after = known[at]
        return f"candidate judged `{after.label}` ({after.reason}), baseline `{before.label}` ({before.reason})"

    before = np.array([one.label == label for _, one, _ in known], dtype=np.bool_)
    after = np.array([one.label == label for _, _, one in known], dtype=np.bool_)
    return RateRows(names.only(places), before, after, sentence)


@dataclass(frozen=True, slots=True)
class _People:
    """People's labels of some pairs; `by_pair` where one verdict is about both responses."""

    human: Sequence[HumanVerdict]
    alpha: float
    by_pair: bool

    def held_against(self, result: AxisResult, names: PairNames, sides: Sequence[Sides], label: str) -> AxisResult:
        """Return the axis with the judge's agreement with people, and corrected by them where there are enough labels."""
        # If a question was asked several times, nobody knows which of the responses a label is about.
        asked = Counter(names.keys)
        labels = {verdict.key: verdict for verdict in self.human}
        both = [
            (labels[key], before.label, after.label)
            for key, (before, after) in zip(names.keys, sides, strict=True)
            if before and after and key in labels and asked[key] == 1
        ]
        uncalibrated = replace(result, flags=(*result.flags, Flag.DETECTOR_UNCALIBRATED))
        if not both:
            none = AxisDetail(_AGREEMENT, None, f"none of {len(labels):,} labelled pairs was judged")
            return replace(uncalibrated, details=(*result.details, none)) if labels else uncalibrated
        agreed = [(h.baseline == b, h.candidate == c) for h, b, c in both]
        units = [all(row) for row in agreed] if self.by_pair else [one for row in agreed for one in row]
        share = wilson(sum(units), len(units), level=1 - self.alpha)
        note = f"{share.interval.low:.3f} to {share.interval.high:.3f}, {len(units):,} "
        note += "pairs" if self.by_pair else "answers"
        details = (*result.details, AxisDetail(_AGREEMENT, share.value, note))
        rows = _label_rows(names, sides, label)
        counts = counts_of(rows)
        sizes = (counts.neither, counts.candidate_only, counts.baseline_only, counts.both)
        cells = tuple(LabelCell("", verdicts, n) for verdicts, n in zip(_VERDICTS, sizes, strict=True))
        labelled = tuple(
            LabelledUnit(
                _VERDICTS.index((int(b == label), int(c == label))),
                (float(h.baseline == label), float(h.candidate == label)),
            )
            for h, b, c in both
        )
        # Labels of a rubric are the user's own: they count as a random sample of the pairs.
        sample = LabelSample(cells, labelled, drawn=False)
        fixed = corrected_difference(sample, alpha=self.alpha, design_effect=row_design_effect(rows))
        if fixed.lacking is not None:
            return replace(uncalibrated, details=details)
        interval = fixed.difference.interval
        note = f"{interval.low:+.3f} to {interval.high:+.3f}, p = {fixed.difference.p:.3g}"
        corrected = AxisDetail("difference corrected by people", fixed.difference.value, note)
        return replace(result, details=(*details, corrected))
