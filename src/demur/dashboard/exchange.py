"""One exchange for the dashboard: the checks of its passport, and its texts where they may be shown.

Keys and checkpoints are those beside the log, and the page says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from demur.dashboard.values import CheckLine, CheckState, DisclosedText, ExchangePage, HealthPage
from demur.detect.check import as_exchange, classify_text
from demur.detect.prompts.check import check_prompt, prompt_text
from demur.errors import DemurError, EmptyInputError, InputError
from demur.model.passport import Passport, PublicKey
from demur.record.checkpoint import NoteKey, read_checkpoint
from demur.record.commit import full_context, meets
from demur.record.keys import KeyRing
from demur.record.replay import contradiction, hidden_gap, misplacement
from demur.record.seal import open_sealed, seal_fault
from demur.record.store.sealing import utc_now
from demur.record.tree import inclusion_proof, is_included, leaf_hash
from demur.wire.shapes import read_stream
from demur.wire.sse import Decoder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from demur.dashboard.reader import DashboardReader
    from demur.model.verdict import Finding
    from demur.record.commit import Disclose
    from demur.record.interface import SealedEntry
    from demur.record.replay import Replay
    from demur.record.store.log_store import LogStore, StoredEntry

__all__ = ["ExchangeReader"]

_MAX_EVIDENCE = 8


@dataclass(frozen=True, slots=True)
class ExchangeReader:
    """Reads single exchanges of one log; `texts` says whether texts may be shown, `replays` are policies by digest."""

    reader: DashboardReader
    texts: bool = False
    replays: Mapping[str, Replay] = field(default_factory=dict)

    def by_place(self, index: int) -> ExchangePage:
        """Return the exchange at a place in the log."""
        with self.reader.opened() as store:
            row = next(store.entries(index, index + 1), None)
            if row is None:
                raise EmptyInputError(
                    f"no record {index}", hint=f"the log has {store.frontier().size:,} records, from 0 on"
                )
            sealed = open_sealed(row.envelope)
            passport = sealed.entry
            if not isinstance(passport, Passport):
                what = f"record {row.index} is a {row.kind}, no exchange"
                raise EmptyInputError(what, hint="see `demur passport show`")
            tail, keys, hidden = store.session_tail(passport.session), self._keys(), hidden_gap(passport)
            gaps = CheckState.FAILS if hidden else CheckState.HOLDS
            with self.reader.place.disclosing(utc_now, on=self.texts or bool(self.replays)) as disclose:
                # All five are on every page: a check that cannot be made is open, never left out.
                checks = (
                    _signature_check(sealed, keys),
                    _inclusion_check(store, row, keys),
                    _sequence_check(store, passport),
                    CheckLine("Gaps", gaps, hidden or "nothing went through unsaid"),
                    self._replay_check(passport, disclose),
                )
                texts = tuple(_disclosed(passport, disclose)) if self.texts else ()
        last = passport.seq if tail is None else tail.seq
        return ExchangePage(row.index, passport, sealed.leaf.hex(), sealed.key_id, checks, texts, self.texts, last)

    def place_in(self, session: str, seq: int) -> int:
        """Return the place of a session's record of this number."""
        with self.reader.opened() as store:
            row = store.session_entry(session, seq)
        if row is None:
            raise EmptyInputError(f"session `{session}` has no record {seq}", hint="search for it by its name")
        return row.index

    def _keys(self) -> tuple[PublicKey, ...]:
        try:
            return self.reader.place.keys().public()
        except DemurError:
            # Without keys a signature is open, not wrong.
            return ()

    def _replay_check(self, passport: Passport, disclose: Disclose | None) -> CheckLine:
        replay = self.replays.get(passport.policy_digest)
        if replay is None:
            return CheckLine("Replay", CheckState.OPEN, "its policy was not given to the dashboard")
        for phase in passport.phases:
            try:
                context = full_context(phase, disclose)
            except InputError as exc:
                return CheckLine("Replay", CheckState.FAILS, f"{phase.phase}: {exc.what}")
            # An erased value cannot be replayed, and an erasure is no fault of the passport.
            if context is None:
                return CheckLine("Replay", CheckState.OPEN, f"{phase.phase}: a withheld value is not disclosed")
            wrong = misplacement(passport, phase) or contradiction(phase, context, replay)
            if wrong is not None:
                return CheckLine("Replay", CheckState.FAILS, wrong)
        return CheckLine("Replay", CheckState.HOLDS, "the policy, put to what was recorded, decides the same")

    def health(self) -> HealthPage:
        """Return how the store is."""
        size = self.reader.catch_up()
        with self.reader.opened() as store:
            frontier = store.frontier()
            last = next(store.entries(frontier.size - 1, frontier.size), None) if frontier.size else None
            origin = store.origin
        count, covered = self.reader.checkpoints()
        keys = tuple((key.key_id, key.not_before or "always", key.not_after or "open") for key in self._keys())
        with self.reader.place.disclosing(utc_now, on=True) as kept:
            shown = "shown" if self.texts else "not shown"
            texts = "none are kept" if kept is None else f"kept beside the log, {shown} here"
        return HealthPage(
            origin,
            self.reader.place.shown,
            frontier.size,
            frontier.root().hex(),
            None if last is None else last.at,
            covered,
            count,
            keys,
            texts,
            self.reader.counts.auditors(),
            self.reader.counts.reach(size),
        )


def _signature_check(sealed: SealedEntry, keys: Sequence[PublicKey]) -> CheckLine:
    if sealed.key_id is None:
        return CheckLine("Signature", CheckState.OPEN, "stamped as unsigned")
    if not keys:
        return CheckLine("Signature", CheckState.OPEN, "no public keys lie beside the log")
    fault = seal_fault(sealed, KeyRing(keys))
    if fault is not None:
        return CheckLine("Signature", CheckState.FAILS, f"key {sealed.key_id}: {fault.replace('_', ' ')}")
    return CheckLine("Signature", CheckState.HOLDS, f"Ed25519 by key {sealed.key_id}")


def _inclusion_check(store: LogStore, row: StoredEntry, keys: Sequence[PublicKey]) -> CheckLine:
    note = next(store.checkpoints(row.index + 1), None)
    if note is None:
        return CheckLine("Inclusion", CheckState.OPEN, "no checkpoint covers it yet")
    try:
        signed = read_checkpoint(note)
        tree = signed.checkpoint
        vouched = bool(signed.signers([NoteKey(store.origin, key) for key in keys]))
        proof = inclusion_proof(row.index, tree.size, store.node)
    except DemurError as exc:
        return CheckLine("Inclusion", CheckState.FAILS, exc.what)
    if not is_included(leaf_hash(row.envelope), row.index, size=tree.size, root=tree.root, proof=proof):
        return CheckLine(
            "Inclusion", CheckState.FAILS, f"it is not what the checkpoint of {tree.size:,} records covers"
        )
    # A proof against a tree head that nobody signed proves nothing.
    if not vouched:
        return CheckLine("Inclusion", CheckState.OPEN, f"no known key signed the checkpoint of {tree.size:,} records")
    return CheckLine("Inclusion", CheckState.HOLDS, f"leaf {row.index:,} of the checkpoint of {tree.size:,} records")


def _sequence_check(store: LogStore, passport: Passport) -> CheckLine:
    if passport.seq == 0:
        said = "the first of its session" if passport.previous is None else "the first, yet it names one before"
        return CheckLine("Sequence", CheckState.FAILS if passport.previous else CheckState.HOLDS, said)
    before = store.session_entry(passport.session, passport.seq - 1)
    if before is None:
        return CheckLine("Sequence", CheckState.FAILS, f"number {passport.seq - 1} of the session is missing")
    if leaf_hash(before.envelope).hex() != passport.previous:
        return CheckLine("Sequence", CheckState.FAILS, "it names another record as the one before")
    return CheckLine("Sequence", CheckState.HOLDS, f"follows record {before.index:,}")


def _disclosed(passport: Passport, disclose: Disclose | None) -> Iterator[DisclosedText]:
    """Yield request and response; a text is there only where it was kept and meets its commitment."""
    readers = (("request", passport.request, _read_request), ("response", passport.response, _read_response))
    for name, commitment, read in readers:
        if commitment is None:
            continue
        size, digest = commitment.size_bytes, commitment.digest
        found = disclose(digest) if disclose else None
        if found is None:
            yield DisclosedText(name, "erased or never kept", size, digest)
        # A text that does not match would be taken for the one on record.
        elif not meets(found, commitment):
            yield DisclosedText(name, "not shown: what is kept does not meet the commitment", size, digest)
        else:
            shown = DisclosedText(name, "meets its commitment; evidence is marked", size, digest)
            try:
                yield read(shown, found.text)
            # The gateway records what it forwards, also in formats that we cannot read.
            except InputError:
                state = "meets its commitment; of no known shape, as it came"
                yield replace(shown, state=state, text=found.text.decode(errors="replace"), raw=True)


def _read_request(shown: DisclosedText, body: bytes) -> DisclosedText:
    text = prompt_text(body)
    return _with_evidence(shown, text, check_prompt(text).findings)


def _read_response(shown: DisclosedText, body: bytes) -> DisclosedText:
    # The committed bytes are the body alone, without the content type that would say so; these begin a stream of server-sent events.
    is_stream = body.lstrip().startswith((b"event:", b"data:", b":"))
    exchange = read_stream(Decoder().feed(body)) if is_stream else as_exchange(body)
    verdict, text = classify_text(exchange.response)
    marked = _with_evidence(shown, text, verdict.findings)
    signals = tuple(f"{signal.path} = {signal.value}" for signal in verdict.signals)
    return replace(marked, evidence=signals + marked.evidence, verdict=verdict)


def _with_evidence(shown: DisclosedText, text: str, findings: Sequence[Finding]) -> DisclosedText:
    lines = tuple(f"{found.weight:+.2f} {found.category}: {found.rule}" for found in findings[:_MAX_EVIDENCE])
    return replace(shown, text=text, spans=tuple(found.span for found in findings), evidence=lines)
