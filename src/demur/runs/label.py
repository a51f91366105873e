"""Which responses people should label, and what their labels say of all of them.

A unit is a pair of two runs, or a row of one. It is in one stratum, by what the detector says and how sure it is of it; units of a stratum
are drawn with one known probability, those where the detector is most likely wrong with the largest. The draw depends on the seed, the ids
and nothing else: a larger sample holds the smaller one, so that a session can be resumed and extended.
"""

from __future__ import annotations

import math
from collections import defaultdict
from enum import StrEnum
from typing import TYPE_CHECKING

from demur.detect.check import classify_text
from demur.errors import EmptyInputError, ShapeError, UsageError
from demur.io.files import input_limits
from demur.measure.labels import kappa_of
from demur.model.labels import PAIR_SIDES, ROW_SIDES, DrawnResponse, LabelCell, LabelledUnit, LabelSample, Side
from demur.model.verdict import NOT_JUDGED
from demur.runs.counting import pair_runs
from demur.runs.engine import open_engine
from demur.runs.inputs import prompts_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from demur.model.labels import GivenLabel
    from demur.runs.engine import Engine, LoadedRun
    from demur.runs.examples import Excerpt
    from demur.runs.options import ReadOptions

__all__ = ["Stratum", "allocate", "draw_responses", "label_sample", "pair_units", "row_units"]


class Stratum(StrEnum):
    """Where a unit is drawn from."""

    NEWLY_REFUSED = "newly_refused"
    NO_LONGER_REFUSED = "no_longer_refused"
    REFUSED = "refused"
    UNCERTAIN = "uncertain"
    """The detector's score of a side is between the two bounds, and the pair is no flip."""
    REST = "rest"


# How often the detector is expected to be wrong, for the size of the sample alone: no estimate depends on it.
_EXPECTED_ERRORS = {
    Stratum.NEWLY_REFUSED: 0.15,
    Stratum.NO_LONGER_REFUSED: 0.15,
    Stratum.UNCERTAIN: 0.1,
    Stratum.REFUSED: 0.05,
    Stratum.REST: 0.01,
}
_PAIR_STRATA = (Stratum.NEWLY_REFUSED, Stratum.NO_LONGER_REFUSED, Stratum.UNCERTAIN, Stratum.REST)
_ROW_STRATA = (Stratum.REFUSED, Stratum.UNCERTAIN, Stratum.REST)
_LEAST = 10
# A sixth at most goes to each of the strata that are wanted in any case.
_SHARE_OF_LEAST = 6
_SURE_FROM, _SURE_BELOW = 0.9, 0.1
_UNSURE = f"BETWEEN {_SURE_BELOW} AND {_SURE_FROM}"
_CRITICAL = 1.96
_UNITS = "label_units"


def allocate(sizes: Sequence[int], n: int, strata: Sequence[Stratum] = _PAIR_STRATA) -> list[int]:
    """Return how many units of each stratum are drawn, of `n` in all: where one more narrows the expected interval most.

    Every stratum but the rest has at least ten units, or a sixth of n, or all that it has. The parts grow with n.
    """
    total = sum(sizes)
    least = min(_LEAST, n // _SHARE_OF_LEAST)
    counts = [0 if stratum is Stratum.REST else min(size, least) for size, stratum in zip(sizes, strata, strict=True)]

    def open_part(at: int, count: int) -> float:
        share, error = sizes[at] / total, _EXPECTED_ERRORS[strata[at]]
        return share * share * (1 - count / sizes[at]) * _reach(count, error) ** 2

    for _ in range(min(n, total) - sum(counts)):
        free = [at for at, size in enumerate(sizes) if counts[at] < size]
        best = max(free, key=lambda at: open_part(at, counts[at]) - open_part(at, counts[at] + 1))
        counts[best] += 1
    return counts


def _reach(n: int, share: float) -> float:
    """Return how far Wilson's interval reaches above a share of n."""
    if not n:
        return 1.0
    z, over = _CRITICAL, _CRITICAL**2 / n
    return (share + over / 2 + z * math.sqrt(share * (1 - share) / n + over / (4 * n))) / (1 + over) - share


def draw_responses(
    runs: Sequence[object], *, n: int, seed: int, key: str | None, options: ReadOptions
) -> tuple[DrawnResponse, ...]:
    """Return the responses of one run, or of the pairs of two, that people should label, in the order to show them."""
    with open_engine(jobs=options.jobs) as engine:
        loaded = [engine.load_run(f"run_{i}", run, fields=(), options=options) for i, run in enumerate(runs)]
        if len(loaded) == 1:
            strata, sides = row_units(engine, loaded[0], options), ROW_SIDES
        else:
            both = (loaded[0], loaded[1])
            pair_runs(engine, both, counted=options.counted_words, key=key, show=0)
            strata, sides = pair_units(engine), PAIR_SIDES
        found = dict(engine.ask(f"SELECT stratum, count(*) FROM {_UNITS} GROUP BY stratum"))
        sizes = [found.get(stratum, 0) for stratum in strata]
        if not sum(sizes):
            raise EmptyInputError("no response was judged", hint="check that the runs hold responses")
        drawn = [
            (unit, stratum, count / size, places)
            for stratum, size, count in zip(strata, sizes, allocate(sizes, n, strata), strict=True)
            for unit, *places in _first_units(engine, stratum, count, seed)
        ]
        return tuple(_responses(engine, loaded, drawn, sides=sides, seed=seed, options=options))


def pair_units(engine: Engine) -> tuple[Stratum, ...]:
    """Make the judged pairs in the engine units, and return their strata."""
    engine.define(
        _UNITS,
        "SELECT CASE WHEN k = 1 THEN key ELSE key || '#' || k END AS unit, "
        f"CASE WHEN bs = 'n' AND cs = 'a' THEN '{Stratum.NEWLY_REFUSED}' "
        f"WHEN bs = 'a' AND cs = 'n' THEN '{Stratum.NO_LONGER_REFUSED}' "
        f"WHEN b_score {_UNSURE} OR c_score {_UNSURE} THEN '{Stratum.UNCERTAIN}' ELSE '{Stratum.REST}' END AS stratum, "
        "CAST(bs = 'a' AS INT) AS first, CAST(cs = 'a' AS INT) AS second, base, cand "
        "FROM pairs WHERE bs IN ('a', 'n') AND cs IN ('a', 'n')",
    )
    return _PAIR_STRATA


def row_units(engine: Engine, run: LoadedRun, options: ReadOptions) -> tuple[Stratum, ...]:
    """Make the judged rows of a run units, and return their strata."""
    counted = ", ".join(f"'{word}'" for word in options.counted_words)
    unjudged = ", ".join(f"'{outcome}'" for outcome in NOT_JUDGED if outcome not in options.counted)
    rows = f"SELECT *, rowid AS place, row_number() OVER (PARTITION BY id ORDER BY rowid) AS k FROM {run.table}"
    engine.define(
        _UNITS,
        "SELECT CASE WHEN id IS NULL THEN 'row ' || (place + 1) WHEN k = 1 THEN id ELSE id || '#' || k END AS unit, "
        f"CASE WHEN score {_UNSURE} THEN '{Stratum.UNCERTAIN}' WHEN outcome IN ({counted}) THEN '{Stratum.REFUSED}' "
        f"ELSE '{Stratum.REST}' END AS stratum, "
        f"CAST(outcome IN ({counted}) AS INT) AS first, NULL AS second, place AS base, NULL AS cand FROM ({rows}) AS ranked "
        + (f"WHERE outcome NOT IN ({unjudged})" if unjudged else ""),
    )
    return _ROW_STRATA


def _first_units(engine: Engine, stratum: str, count: int, seed: int) -> list[tuple[str, int, int]]:
    # Permanent random numbers (Ohlsson 1995): each unit has one of its own, and the smallest are drawn.
    order = f"md5('{seed}|' || unit), unit"
    query = f"SELECT unit, base, cand FROM {_UNITS} WHERE stratum = '{stratum}' ORDER BY {order} LIMIT {count}"
    return [(unit, base, cand) for unit, base, cand in engine.ask(query)]


def _responses(
    engine: Engine,
    runs: Sequence[LoadedRun],
    drawn: Sequence[tuple[str, Stratum, float, list[int]]],
    *,
    sides: Sequence[Side],
    seed: int,
    options: ReadOptions,
) -> Iterator[DrawnResponse]:
    """Yield the drawn responses with their texts; in an order that is as good as random, so that labels of a part are a sample too."""
    excerpts = [engine.excerpts(run, [places[i] for *_, places in drawn]) for i, run in enumerate(runs)]
    ids = {each[2].exchange.id or "" for found in excerpts for each in found.values()}
    asked = prompts_of(options.requests, engine.folder, ids, limits=input_limits()) if options.requests else {}
    units = [unit for unit, *_ in drawn]
    engine.fill("label_order", [(unit, str(i)) for i, unit in enumerate(units)], ("unit", "place"))
    hashed = f"md5('order|{seed}|' || unit)"
    for place, mark in engine.ask(f"SELECT place, {hashed} FROM label_order ORDER BY {hashed}, unit"):
        unit, stratum, probability, places = drawn[int(place)]
        # Which side comes first differs from pair to pair, so that nobody learns which run is which.
        turned = list(enumerate(sides))[:: -1 if int(mark[-1], 16) % 2 else 1]
        for number, side in turned:
            row = excerpts[number].get(places[number])
            if row is None:
                raise UsageError(
                    f"`{unit}` cannot be read again", hint="do not change the runs while they are labelled"
                )
            response = _shown(row, options)
            request = row[2].exchange.request
            prompt = request.prompt if request else asked.get(row[2].exchange.id or "")
            yield DrawnResponse(unit, side, probability, stratum, row[0], row[1], prompt, response)


def _shown(row: Excerpt, options: ReadOptions) -> str:
    """Return the text of a response; of one without text, what the provider says instead."""
    response = row[2].exchange.response
    verdict, text = classify_text(response, judge=options.judge)
    if text and text.strip():
        return text
    said = ", ".join(f"{signal.path} = {signal.value}" for signal in verdict.signals)
    return f"[no text; the provider says {said}]" if said else "[no text]"


def label_sample(
    engine: Engine, labels: Sequence[GivenLabel], *, sides: Sequence[Side], source: str, labels_are_random: bool
) -> LabelSample:
    """Return what labels say of the units that are defined in the engine; a label of something else is an error."""
    drawn = _check_drawn(labels, source, labels_are_random=labels_are_random)
    order = {stratum: at for at, stratum in enumerate(Stratum)}
    found = engine.ask(f"SELECT stratum, first, second, count(*) FROM {_UNITS} GROUP BY stratum, first, second")
    found.sort(key=lambda row: (order[row[0]], row[1], row[2] or 0))
    cells = tuple(LabelCell(row[0], tuple(row[1 : 1 + len(sides)]), row[3]) for row in found)
    numbers = {(cell.stratum, cell.verdicts): number for number, cell in enumerate(cells)}
    by_unit: dict[str, list[GivenLabel]] = defaultdict(list)
    for label in labels:
        by_unit[label.id].append(label)
    engine.fill("labels", [(unit, "") for unit in by_unit], ("unit", "unused"))
    known = engine.ask(f"SELECT unit, stratum, first, second FROM labels JOIN {_UNITS} USING (unit)")
    cell_of = {unit: numbers[stratum, tuple(verdicts[: len(sides)])] for unit, stratum, *verdicts in known}
    _check_known(engine, by_unit, cell_of, sides=sides)
    units, undecided = [], 0
    for unit, cell in sorted(cell_of.items()):
        said = [_mean_of([label for label in by_unit[unit] if label.side == side]) for side in sides]
        if any(value is None for value, _ in said):
            # A pair of which only one side is labelled yet is not labelled; one that somebody could not decide is counted.
            undecided += all(there for _, there in said)
            continue
        probability = by_unit[unit][0].probability
        weight = 1 / probability if drawn and probability else 1.0
        units.append(LabelledUnit(cell, tuple(value for value, _ in said if value is not None), weight))
    annotators = tuple(sorted({label.annotator for label in labels if label.annotator}))
    return LabelSample(cells, tuple(units), drawn, annotators, kappa_of(labels), undecided)


def _mean_of(labels: Sequence[GivenLabel]) -> tuple[float | None, bool]:
    """Return what annotators say on the whole of one side, and whether any said anything of it."""
    decided = [label.value for label in labels if label.value is not None]
    return (math.fsum(decided) / len(decided) if decided else None), bool(labels)


def _check_drawn(labels: Sequence[GivenLabel], source: str, *, labels_are_random: bool) -> bool:
    """Return whether the labels were drawn with known probabilities; where they were not, the user must vouch for them."""
    if not labels:
        raise EmptyInputError("no labels in it", source=source, hint="label some with `demur label`")
    without = [label for label in labels if label.probability is None]
    if not without:
        return True
    if len(without) < len(labels):
        raise ShapeError(
            "some labels have a probability and some have none",
            hint="keep labels of different draws in files of their own",
        ).at(without[0].source, without[0].line)
    if not labels_are_random:
        hint = "draw them with `demur label`, or pass --labels-are-random if they are a random sample of all"
        raise UsageError(f"the labels in `{source}` have no column `probability`: how were they drawn?", hint=hint)
    return False


def _check_known(
    engine: Engine, by_unit: dict[str, list[GivenLabel]], cell_of: dict[str, int], *, sides: Sequence[Side]
) -> None:
    """Raise where a label is of a unit that the runs do not have; one that has no verdict in both runs is left out."""
    of_pairs = len(sides) > 1
    there = {unit for (unit,) in engine.ask("SELECT unit FROM labels JOIN pairs ON unit = key")} if of_pairs else set()
    for unit in [unit for unit in by_unit if unit not in cell_of and unit not in there]:
        first = by_unit[unit][0]
        what = "no pair of these runs has" if of_pairs else "no judged row of this run has"
        hint = "label the runs that are compared" if of_pairs else "label the run that is scanned"
        raise ShapeError(f"{what} the id `{unit[:60]}`", hint=hint).at(first.source, first.line)
    wrong = next((label for found in by_unit.values() for label in found if label.side not in sides), None)
    if wrong is not None:
        hint = "labels of one run are for `demur scan`" if of_pairs else "labels of pairs are for `demur diff`"
        raise ShapeError(f"a label of the side `{wrong.side}`", hint=hint).at(wrong.source, wrong.line)
