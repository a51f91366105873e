"""`demur passport rates`: how often the answer was no, by model, day or decision, and whose no it was."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from demur.cli.options import fields_of_flag
from demur.cli.passport.words import opened, place_of, print_object, print_said
from demur.errors import EmptyInputError, UsageError
from demur.record.store.rates import GroupRates, rates_of
from demur.report.columns import padded, printable
from demur.report.json import rate_object, safe_text
from demur.report.numbers import UNKNOWN, percent

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from demur.model.estimate import Rate

__all__ = ["run_rates"]

_DAY = re.compile(r"\d{4}(?:-(?:0[1-9]|1[0-2])(?:-(?:0[1-9]|[12]\d|3[01])(?:T(?:[01]\d|2[0-3])[\d:.]*Z?)?)?)?")
"""The beginning of a time of RFC 3339, from the year on."""
_GROUP, _COUNT, _RATE = 18, 10, 16
_HEADS = ("exchanges", "denied, %", "filtered, %", "refused, %")


def run_rates(args: argparse.Namespace) -> int:
    """Return the exit code of one call."""
    by = fields_of_flag(args.by) or ["model"]
    for given in (args.since, args.until):
        if given not in ("", "~") and not _DAY.fullmatch(given):
            raise UsageError(f"`{given}` is no date", hint="write 2026-11-16, or 2026-11-16T08")
    with opened(place_of(args)) as store:
        counts = list(store.rollup())
        origin = store.origin
    whole = rates_of(counts, (), since=args.since, until=args.until)
    groups = rates_of(counts, by, since=args.since, until=args.until)
    if not whole:
        raise EmptyInputError("no passports in this log and time", hint="see `demur passport show`, or other days")
    if args.json:
        total = _rates_object(whole[0], ())
        print_object({"origin": origin, "by": by, **total, "groups": [_rates_object(group, by) for group in groups]})
        return 0
    print(_table_line(", ".join(by), _HEADS))
    for group in groups:
        print(_table_line(" ".join(group.group), _cells(group)))
    if len(groups) > 1:
        print(_table_line("all", _cells(whole[0])))
    print()
    print_said(
        "denied: by the gateway, of all exchanges; filtered: by the provider, refused: by the model, "
        f"of those that a provider answered ({whole[0].unanswered:,} were not). In brackets: 95% intervals (Wilson)."
    )
    return 0


def _cells(group: GroupRates) -> tuple[str, ...]:
    rates = (group.gateway_denied, group.provider_filtered, group.model_refused)
    return (f"{group.exchanges:,}", *(_cell(rate) for rate in rates))


def _cell(rate: Rate) -> str:
    if rate.value is None:
        return UNKNOWN
    return f"{percent(rate.value)} ({percent(rate.interval.low)}–{percent(rate.interval.high)})"


def _table_line(name: str, cells: Sequence[str]) -> str:
    widths = (_COUNT, _RATE, _RATE, _RATE)
    figures = "".join(f" {cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
    return padded(printable(name, most=_GROUP), _GROUP) + figures


def _rates_object(group: GroupRates, by: Sequence[str]) -> dict[str, object]:
    return {
        **{field: safe_text(value) for field, value in zip(by, group.group, strict=True)},
        "exchanges": group.exchanges,
        "unanswered": group.unanswered,
        "gateway_denied": rate_object(group.gateway_denied),
        "provider_filtered": rate_object(group.provider_filtered),
        "model_refused": rate_object(group.model_refused),
    }
