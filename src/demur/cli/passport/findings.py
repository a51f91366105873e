"""What did a verification come to, and how is it said? Faults, limits and the verdict, for people and for machines.

Laws: what was not checked is printed as plainly as what was; the first record that is bad is named; a long list of faults is cut, and
it is said by how much.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from demur.cli.passport.words import print_object, print_row, print_said
from demur.report.diff_words import counted

if TYPE_CHECKING:
    from demur.model.passport import Verification
    from demur.record.store.checks import StoreFault

__all__ = ["Findings", "print_findings", "print_findings_object"]

_MOST_SHOWN = 10


@dataclass
class Findings:
    """What a check came to, gathered for printing."""

    what: str
    origin: str
    checked: Verification | None = None
    faults: list[StoreFault] = field(default_factory=list)
    limits: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing that was checked is wrong."""
        return not self.faults and (self.checked is None or self.checked.ok)


def _bad(found: Findings) -> list[tuple[int | None, str]]:
    """Return every fault, records named exactly first, then stretches, then what is about the whole."""
    exact = [(fault.index, fault.what) for fault in found.faults if fault.index is not None]
    vague: list[tuple[int | None, str]] = [(None, fault.what) for fault in found.faults if fault.index is None]
    stretches: list[tuple[int | None, str]] = []
    for fault in found.checked.faults if found.checked else ():
        if fault.until is None:
            exact.append((fault.index, fault.what))
        else:
            stretches.append((None, f"records {fault.index} to {fault.until}: {fault.what} ({fault.kind})"))
    return [*sorted(exact, key=lambda bad: bad[0]), *stretches, *vague]


def _verdict(found: Findings) -> str:
    bad = _bad(found)
    if found.ok:
        return "holds, as far as it was checked"
    if not bad:
        return "nothing to check: the log is empty"
    index, what = bad[0]
    return f"does not hold; first: record {index}: {what}" if index is not None else f"does not hold; first: {what}"


def print_findings(found: Findings) -> None:
    """Print for people what was checked, what was not, and what is bad."""
    records = f": {counted(found.checked.records, 'record')}, root {found.checked.root[:16]}…" if found.checked else ""
    print_said(f"{found.what} of {found.origin}{records}")
    for tally in found.checked.tallies if found.checked else ():
        failed = f", {tally.failed:,} failed" if tally.failed else ""
        if tally.passed or tally.failed:
            print_row(f"  {tally.check}", f"{tally.passed:,} held{failed}")
    if found.what == "store":
        print_row("  store", "its tree, columns and counts " + ("differ" if found.faults else "agree with its records"))
    if found.what == "bundle":
        print_row("  bundle", "signature, checkpoint, inclusion" + (": failed" if found.faults else " hold"))
    print("not checked")
    for tally in found.checked.tallies if found.checked else ():
        for why, count in tally.unchecked:
            print_row(f"  {tally.check}", f"{count:,}: {why}")
    for limit in found.limits:
        print_said(f"- {limit}", "  ")
    bad = _bad(found)
    for index, what in bad[:_MOST_SHOWN]:
        print_said(f"bad: record {index}: {what}" if index is not None else f"bad: {what}")
    if len(bad) > _MOST_SHOWN:
        print(f"bad: … and {len(bad) - _MOST_SHOWN:,} more")
    print_said(_verdict(found))


def print_findings_object(found: Findings) -> None:
    """Print the same as one JSON object."""
    bad = _bad(found)
    tallies = found.checked.tallies if found.checked else ()
    print_object(
        {
            "ok": found.ok,
            "what": found.what,
            "origin": found.origin,
            "records": found.checked.records if found.checked else None,
            "root": found.checked.root if found.checked else None,
            "first_bad": bad[0][0] if bad else None,
            "faults": [{"record": index, "what": what} for index, what in bad],
            "checks": {
                tally.check: {
                    "held": tally.passed,
                    "failed": tally.failed,
                    "unchecked": [{"why": why, "count": count} for why, count in tally.unchecked],
                }
                for tally in tallies
            },
            "kinds": sorted({fault.kind for fault in (found.checked.faults if found.checked else ())}),
            "not_checked": found.limits,
            "verdict": _verdict(found),
        }
    )
