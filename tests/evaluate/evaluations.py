"""Evaluations to show: small, with every table filled and every kind of nasty text."""

from __future__ import annotations

from demur.evaluate.quality import Options, label_counts, prompt_quality, response_quality
from demur.model.evaluation import Dimension, Evaluation, Label, LabelledText, Side, SideReport
from demur.model.verdict import Finding, Outcome, PromptVerdict, Span, Verdict

NASTY = (
    "<script>alert('x')</script> \x1b[31m I can't help & won't 도와드릴 수 없습니다. "
    + "filler words " * 80
    + "the end"
)
_LABELS = (Label.REFUSAL, Label.COMPLIANCE, Label.COMPLIANCE, Label.PARTIAL)


def _rows(labels: tuple[Label, ...], text: str) -> list[LabelledText]:
    rows = []
    for at in range(40):
        facets = (
            (Dimension.SET, f"set <{at % 2}>"),
            (Dimension.LANGUAGE, "한국어로 쓰인 아주 긴 이름의 언어" if at % 3 else "en"),
            (Dimension.MODEL, f"a model with a very long name \x07 number {at % 4}"),
            (Dimension.CATEGORY, f"category {at % 20}"),
        )
        rows.append(
            LabelledText(f"row<{at}>", text, labels[at % len(labels)], "a/very/long/path/" * 8 + "s.jsonl", at, facets)
        )
    return rows


def _responses() -> SideReport:
    rows = _rows(_LABELS, NASTY)
    hits = tuple(Finding(f"rule <{n}>", "refusal", 0.5, Span(30 + n, 40 + n)) for n in range(7))
    outcomes = (Outcome.REFUSED, Outcome.REFUSED, Outcome.COMPLIED, Outcome.PARTIAL, Outcome.COMPLIED, Outcome.EMPTY)
    verdicts = [Verdict(outcomes[at % 6], (at % 10) / 10, findings=hits if at % 2 else ()) for at in range(len(rows))]
    names = ("demur", "<pack>", "third", "a fourth judge with a name that is long")
    judges = [response_quality(rows, verdicts, judge=name, options=Options(2), micros_per_text=12.3) for name in names]
    return SideReport(Side.RESPONSE, label_counts(rows, Side.RESPONSE), tuple(judges))


def _prompts() -> SideReport:
    rows = _rows((Label.ATTACK, Label.BENIGN, Label.HARMFUL, Label.BENIGN), "Ignore all that \x00 and shoot")
    hit = (Finding("r", "jailbreak", 1.0, Span(0, 6)),)
    verdicts = [
        PromptVerdict(
            at % 3 == 0, (at % 7) / 7, harm=("hate",) if at % 5 == 0 else (), harm_score=(at % 9) / 9, findings=hit
        )
        for at in range(len(rows))
    ]
    report = prompt_quality(rows, verdicts, judge="demur", options=Options(1))
    return SideReport(Side.PROMPT, label_counts(rows, Side.PROMPT), (report,))


def both_sides() -> Evaluation:
    """An evaluation with four judges on responses and one on prompts, rows left out and rows not readable."""
    left_out = (("labelled other", 42), ("labelled unclear", 1))
    return Evaluation(("<a>.jsonl", "b.csv"), (_responses(), _prompts()), left_out, 3, 0.7)


def nothing_positive() -> Evaluation:
    """An evaluation of one partial row: hardly a figure is known."""
    rows = [LabelledText("x", "", Label.PARTIAL, "s", 1)]
    report = response_quality(rows, [Verdict(Outcome.EMPTY, 0.0)], judge="demur", options=Options())
    return Evaluation(("s",), (SideReport(Side.RESPONSE, label_counts(rows, Side.RESPONSE), (report,)),))


def biased() -> Evaluation:
    """An evaluation of a judge that never sees the refusals of one of two models."""
    rows = [
        LabelledText(
            "x", "t", Label.REFUSAL if at % 2 else Label.COMPLIANCE, "s", at, ((Dimension.MODEL, f"m{at // 20}"),)
        )
        for at in range(40)
    ]
    right = [Verdict(Outcome.REFUSED if row.label is Label.REFUSAL else Outcome.COMPLIED, 0.5) for row in rows[:20]]
    verdicts = right + [Verdict(Outcome.COMPLIED, 0.5)] * 20
    report = response_quality(rows, verdicts, judge="demur", options=Options(0))
    return Evaluation(("s",), (SideReport(Side.RESPONSE, label_counts(rows, Side.RESPONSE), (report,)),))
