"""What the figures of an evaluation count, row by row."""

from __future__ import annotations

from typing import TypeVar

import pytest

from demur.evaluate.quality import Options, label_counts, prompt_quality, response_quality
from demur.model.evaluation import Dimension, Label, LabelledText, MistakeKind, Question, Side
from demur.model.verdict import Finding, Outcome, PromptVerdict, Span, Verdict

V = TypeVar("V")
PLAIN = Options()
HIT = (Finding("r", "refusal", 1.0, Span(0, 1)),)


def row(label: Label, at: int = 1, **facets: str) -> LabelledText:
    """A row with a label and facets by name."""
    found = tuple((Dimension(name), value) for name, value in facets.items())
    return LabelledText(f"r{at}", f"text {at}", label, "set.jsonl", at, found)


def said(outcome: Outcome, score: float | None = None) -> Verdict:
    """A verdict on a response; sure of itself where no score is given."""
    return Verdict(outcome, (outcome is Outcome.REFUSED) * 1.0 if score is None else score, findings=HIT)


# label, verdict, how often
RESPONSES = [
    (Label.REFUSAL, said(Outcome.REFUSED, 0.95), 8),
    (Label.REFUSAL, said(Outcome.FILTERED, 1.0), 1),
    (Label.REFUSAL, said(Outcome.COMPLIED, 0.05), 2),
    (Label.REFUSAL, said(Outcome.PARTIAL, 0.4), 1),
    (Label.PARTIAL, said(Outcome.PARTIAL, 0.4), 3),
    (Label.PARTIAL, said(Outcome.REFUSED, 0.9), 2),
    (Label.COMPLIANCE, said(Outcome.COMPLIED, 0.05), 17),
    (Label.COMPLIANCE, said(Outcome.REFUSED, 0.95), 1),
    (Label.COMPLIANCE, said(Outcome.EMPTY), 1),
    (Label.COMPLIANCE, said(Outcome.UNSURE, 0.5), 1),
]


def rows_of(table: list[tuple[Label, V, int]]) -> tuple[list[LabelledText], list[V]]:
    """A table of labels, verdicts and how often they come, spelt out."""
    pairs = [(label, verdict) for label, verdict, times in table for _ in range(times)]
    return [row(label, at) for at, (label, _) in enumerate(pairs)], [verdict for _, verdict in pairs]


def test_full_refusal_against_compliance() -> None:
    """Partials are left out; refused and filtered are positive answers, all else is not."""
    report = response_quality(*rows_of(RESPONSES), judge="j", options=PLAIN, micros_per_text=7.5)
    (q,) = report.qualities
    assert (q.true_positives, q.false_positives, q.false_negatives, q.true_negatives) == (9, 1, 3, 19)
    assert (q.n, q.precision.value, q.recall.value) == (32, 0.9, 0.75)
    assert q.f1.value == pytest.approx(18 / 22)
    assert (q.false_positive_rate.value, q.labelled.value, q.said.value) == (0.05, 12 / 32, 10 / 32)
    assert (q.bias, q.leans) == (-2 / 32, False)
    assert (report.judge, report.micros_per_text) == ("j", 7.5)


def test_three_classes() -> None:
    """The confusion table has the three labels and the three answers, and a column for what is none of them."""
    report = response_quality(*rows_of(RESPONSES), judge="j", options=PLAIN)
    assert report.confusion.answers == ("refused", "partial", "complied", "other")
    assert report.confusion.counts == ((9, 1, 2, 0), (2, 3, 0, 0), (1, 0, 17, 2))
    expected = (2 * 9 / 24 + 2 * 3 / 9 + 2 * 17 / 39) / 3
    assert report.macro_f1 is not None
    assert report.macro_f1.value == pytest.approx(expected)


def test_a_threshold_replaces_the_judges_own() -> None:
    """With a threshold the score alone decides on a refusal; below it a partial stays one, a refusal becomes none."""
    report = response_quality(*rows_of(RESPONSES), judge="j", options=Options(threshold=0.92))
    assert report.confusion.counts == ((9, 1, 2, 0), (0, 3, 2, 0), (1, 0, 18, 1))
    lower = response_quality(*rows_of(RESPONSES), judge="j", options=Options(threshold=0.3))
    assert lower.confusion.counts == ((10, 0, 2, 0), (5, 0, 0, 0), (2, 0, 17, 1))


def test_calibration() -> None:
    """Brier is the mean squared distance, the expected error the mean gap of the bins, and 1.0 is in the last bin."""
    rows = [row(Label.REFUSAL), row(Label.COMPLIANCE), row(Label.REFUSAL), row(Label.COMPLIANCE)]
    verdicts = [said(Outcome.REFUSED, s) for s in (1.0, 0.92, 0.25, 0.21)]
    (calibration,) = response_quality(rows, verdicts, judge="j", options=PLAIN).calibrations
    assert calibration.brier == pytest.approx((0 + 0.92**2 + 0.75**2 + 0.21**2) / 4)
    bins = [(b.low, b.high, b.positives.count, b.positives.n) for b in calibration.bins]
    assert bins == [(0.2, 0.3, 1, 2), (0.9, 1.0, 1, 2)]
    assert calibration.expected_error == pytest.approx((abs(0.23 - 0.5) * 2 + abs(0.96 - 0.5) * 2) / 4)


def test_rows_without_a_say_leave_nothing_known() -> None:
    """A set of partials alone has no figures for the refusal question, but a confusion table."""
    report = response_quality([row(Label.PARTIAL)], [said(Outcome.PARTIAL)], judge="j", options=PLAIN)
    (q,), (c,) = report.qualities, report.calibrations
    assert (q.n, q.bias, q.f1.value, q.leans) == (0, None, None, False)
    assert (c.n, c.brier, c.expected_error, c.bins) == (0, None, None, ())
    assert report.confusion.counts[1] == (0, 1, 0, 0)


def test_slices_show_a_biased_model() -> None:
    """Rates by label and by the judge stand side by side for every value of every dimension, the largest first."""
    rows = [row(Label.REFUSAL, at, model="quiet", language="en") for at in range(10)]
    rows += [row(Label.COMPLIANCE, at, model="quiet", language="en") for at in range(10)]
    rows += [row(Label.REFUSAL, at, model="loud", language="de") for at in range(4)]
    verdicts = [said(Outcome.COMPLIED)] * 20 + [said(Outcome.REFUSED)] * 4
    slices = response_quality(rows, verdicts, judge="j", options=PLAIN).slices
    assert [s.dimension for s in slices] == [Dimension.LANGUAGE] * 2 + [Dimension.MODEL] * 2
    assert [(s.value, s.n) for s in slices] == [("en", 20), ("de", 4), ("quiet", 20), ("loud", 4)]
    quiet, loud = slices[2], slices[3]
    assert (quiet.qualities[0].labelled.value, quiet.qualities[0].said.value) == (0.5, 0.0)
    assert (quiet.qualities[0].bias, quiet.qualities[0].leans, quiet.errors) == (-0.5, True, 10)
    assert (loud.qualities[0].bias, loud.qualities[0].leans, loud.errors) == (0.0, False, 0)


def test_one_label_has_no_lean() -> None:
    """Where every row has one label errors can only go one way, and that says nothing."""
    rows = [row(Label.COMPLIANCE, at) for at in range(9)]
    (q,) = response_quality(rows, [said(Outcome.REFUSED)] * 9, judge="j", options=PLAIN).qualities
    assert (q.bias, q.leans) == (1.0, False)


def test_a_row_may_have_several_categories() -> None:
    """Each value of a dimension counts the row once, even where it is named twice."""
    both = LabelledText("x", "t", Label.REFUSAL, "s", 1, tuple((Dimension.CATEGORY, name) for name in "aba"))
    slices = response_quality([both], [said(Outcome.REFUSED)], judge="j", options=PLAIN).slices
    assert [(s.value, s.n) for s in slices] == [("a", 1), ("b", 1)]


def test_the_worst_mistakes_come_first() -> None:
    """Mistakes of each kind are ordered by how sure the judge was, ties as in the file, and cut at N."""
    rows = [row(Label.COMPLIANCE, at) for at in range(4)] + [row(Label.REFUSAL, at) for at in range(4, 7)]
    rows.append(row(Label.PARTIAL, 7))
    scores = (0.7, 0.99, 0.8, 0.8, 0.4, 0.01, 0.2, 0.99)
    wrong = [Outcome.REFUSED if row.label is Label.COMPLIANCE else Outcome.COMPLIED for row in rows]
    verdicts = list(map(said, wrong, scores))
    worst = response_quality(rows, verdicts, judge="j", options=Options(worst=3)).worst
    assert [m.kind for m in worst] == [MistakeKind.FALSE_ALARM] * 3 + [MistakeKind.MISSED] * 3
    assert [m.row.id for m in worst] == ["r1", "r2", "r3", "r5", "r6", "r4"]
    assert [m.wrongness for m in worst] == pytest.approx([0.99, 0.8, 0.8, 0.99, 0.8, 0.6])
    assert (worst[0].findings, worst[0].answer, worst[0].question) == (HIT, "refused", Question.REFUSAL)
    assert response_quality(rows, verdicts, judge="j", options=Options(worst=0)).worst == ()


def flags(*, attack: float = 0.0, harm: float = 0.0) -> PromptVerdict:
    """A verdict on a prompt that flags from 0.5 on."""
    return PromptVerdict(attack >= 0.5, attack, harm=("violence",) if harm >= 0.5 else (), harm_score=harm)


PROMPTS = [
    (Label.ATTACK, flags(attack=0.9), 6),
    (Label.ATTACK, flags(harm=0.9), 2),
    (Label.ATTACK, flags(), 2),
    (Label.HARMFUL, flags(harm=0.8), 3),
    (Label.HARMFUL, flags(attack=0.8), 1),
    (Label.BENIGN, flags(), 17),
    (Label.BENIGN, flags(attack=0.9, harm=0.9), 1),
    (Label.BENIGN, flags(harm=0.7), 2),
]


def test_prompts_have_three_questions() -> None:
    """Attacks have no say in the harm question, harmful requests none in the adversarial one, all have in either."""
    report = prompt_quality(*rows_of(PROMPTS), judge="j", options=PLAIN, micros_per_text=1.0)
    assert [q.question for q in report.qualities] == [Question.ADVERSARIAL, Question.HARM, Question.EITHER]
    cells = [(q.true_positives, q.false_positives, q.false_negatives, q.true_negatives) for q in report.qualities]
    assert cells == [(6, 1, 4, 19), (3, 3, 1, 17), (12, 3, 2, 17)]
    assert report.confusion.answers == ("adversarial", "harm", "both", "neither")
    assert report.confusion.counts == ((6, 2, 0, 2), (1, 3, 0, 0), (0, 2, 1, 17))
    assert (report.macro_f1, report.micros_per_text) == (None, 1.0)
    assert [c.n for c in report.calibrations] == [30, 24, 34]


def test_a_threshold_for_prompts() -> None:
    """With a threshold both scores are held against it."""
    report = prompt_quality(*rows_of(PROMPTS), judge="j", options=Options(threshold=0.85))
    assert report.confusion.counts == ((6, 2, 0, 2), (0, 0, 0, 4), (0, 0, 1, 19))


def test_a_row_is_one_mistake() -> None:
    """A prompt that is wrongly flagged twice is listed once, by the surer flag."""
    verdict = PromptVerdict(adversarial=True, score=0.6, harm=("hate",), harm_score=0.9)
    (mistake,) = prompt_quality([row(Label.BENIGN)], [verdict], judge="j", options=PLAIN).worst
    assert (mistake.question, mistake.score, mistake.answer) == (Question.HARM, 0.9, "both")


def test_rows_and_verdicts_belong_together() -> None:
    """A verdict too few is refused, never shifted."""
    with pytest.raises(ValueError, match="zip"):
        response_quality([row(Label.REFUSAL)], [], judge="j", options=PLAIN)


def test_labels_are_counted_in_the_order_of_the_table() -> None:
    """Every label of the side is listed, also one that no row has."""
    rows = [row(Label.COMPLIANCE), row(Label.REFUSAL), row(Label.COMPLIANCE)]
    assert label_counts(rows, Side.RESPONSE) == ((Label.REFUSAL, 1), (Label.PARTIAL, 0), (Label.COMPLIANCE, 2))
    assert [label for label, _ in label_counts([], Side.PROMPT)] == [Label.ATTACK, Label.HARMFUL, Label.BENIGN]
    assert {label.side for label, _ in label_counts([], Side.PROMPT)} == {Side.PROMPT}
