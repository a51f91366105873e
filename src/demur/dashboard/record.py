"""One exchange for the dashboard: is its passport what it says to be, and what are its texts?

Laws: a check that cannot be made is said to be open, never passed over; keys and checkpoints are those beside the log, and it is said that
they are; a text is read only where texts may be shown, and shown only where it meets its commitment.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from demur.dashboard.values import CheckLine, CheckState, DisclosedText, ExchangePage, HealthPage
from demur.detect.check import as_exchange, classify_text
from demur.detect.prompts.check import check_prompt, prompt_text
from demur.errors import DemurError, EmptyInputError, InputError, StoreError
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
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from demur.dashboard.reader import DashboardReader
    from demur.model.passport import Commitment
    from demur.model.verdict import Finding
    from demur.record.commit import Disclose, Disclosure
    from demur.record.replay import Replay
    from demur.record.seal import SealedEntry
    from demur.record.store.entries import StoredEntry
    from demur.record.store.log_store import LogStore

__all__ = ["RecordDesk"]

_MOST_EVIDENCE = 8


@dataclass(frozen=True, slots=True)
class RecordDesk:
    """Shows records of one log; `texts` says whether their texts may be shown, `replays` are policies by digest."""

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
            return self._page(store, row)

    def place_in(self, session: str, seq: int) -> int:
        """Return the place of a session's record of this number."""
        with self.reader.opened() as store:
            row = store.session_entry(session, seq)
        if row is None:
            raise EmptyInputError(f"session `{session}` has no record {seq}", hint="search for it by its name")
        return row.index

    def _page(self, store: LogStore, row: StoredEntry) -> ExchangePage:
        sealed = open_sealed(row.envelope)
        passport = sealed.entry
        if not isinstance(passport, Passport):
            raise EmptyInputError(f"record {row.index} is a {row.kind}, no exchange", hint="see `demur passport show`")
        tail = store.session_tail(passport.session)
        texts: tuple[DisclosedText, ...] = ()
        with _texts_beside(self.reader, on=self.texts or bool(self.replays)) as disclose:
            checks = tuple(self._checks(store, row, sealed, passport, disclose=disclose))
            if self.texts:
                texts = tuple(_disclosed(passport, disclose))
        last = passport.seq if tail is None else tail.seq
        return ExchangePage(row.index, passport, sealed.leaf.hex(), sealed.key_id, checks, texts, self.texts, last)

    def _keys(self) -> tuple[PublicKey, ...]:
        try:
            return self.reader.place.keys().public()
        except DemurError:
            return ()

    def _checks(
        self, store: LogStore, row: StoredEntry, sealed: SealedEntry, passport: Passport, *, disclose: Disclose | None
    ) -> Iterator[CheckLine]:
        keys = self._keys()
        yield _signature_check(sealed, keys)
        yield _inclusion_check(store, row, keys)
        yield _sequence_check(store, passport)
        hidden = hidden_gap(passport)
        yield CheckLine(
            "Gaps", CheckState.FAILS if hidden else CheckState.HOLDS, hidden or "nothing went through unsaid"
        )
        yield self._replay_check(passport, disclose)

    def _replay_check(self, passport: Passport, disclose: Disclose | None) -> CheckLine:
        replay = self.replays.get(passport.policy_digest)
        if replay is None:
            return CheckLine("Replay", CheckState.OPEN, "its policy was not given to the dashboard")
        for phase in passport.phases:
            try:
                context = full_context(phase, disclose)
            except InputError as exc:
                return CheckLine("Replay", CheckState.FAILS, f"{phase.phase}: {exc.what}")
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
        with _texts_beside(self.reader, on=True) as kept:
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


@contextmanager
def _texts_beside(reader: DashboardReader, *, on: bool) -> Iterator[Disclose | None]:
    """Give the texts beside a log; None where they may not be read or were never kept."""
    try:
        store = reader.place.disclosures(utc_now, read_only=True) if on else None
    except StoreError:
        store = None
    try:
        yield None if store is None else store.get
    finally:
        if store is not None:
            store.close()


def _signature_check(sealed: SealedEntry, keys: Sequence[PublicKey]) -> CheckLine:
    if sealed.key_id is None:
        return CheckLine("Signature", CheckState.OPEN, "stamped as unsigned")
    if not keys:
        return CheckLine("Signature", CheckState.OPEN, "no public keys lie beside the log")
    refused = seal_fault(sealed, KeyRing(keys))
    if refused is not None:
        return CheckLine("Signature", CheckState.FAILS, f"key {sealed.key_id}: {refused.replace('_', ' ')}")
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
    readers = (("request", passport.request, _read_request), ("response", passport.response, _read_response))
    for name, commitment, read in readers:
        if commitment is not None:
            yield _disclosed_text(name, commitment, disclose(commitment.digest) if disclose else None, read=read)


def _disclosed_text(
    name: str,
    commitment: Commitment,
    found: Disclosure | None,
    *,
    read: Callable[[DisclosedText, bytes], DisclosedText],
) -> DisclosedText:
    size, digest = commitment.size_bytes, commitment.digest
    if found is None:
        return DisclosedText(name, "erased or never kept", size, digest)
    if not meets(found, commitment):
        return DisclosedText(name, "not shown: what is kept does not meet the commitment", size, digest)
    return read(DisclosedText(name, "meets its commitment; evidence is marked", size, digest), found.text)


def _read_request(shown: DisclosedText, body: bytes) -> DisclosedText:
    try:
        text = prompt_text(body)
    except InputError:
        return _as_it_came(shown, body)
    verdict = check_prompt(text)
    return _with_evidence(shown, text, verdict.findings)


def _read_response(shown: DisclosedText, body: bytes) -> DisclosedText:
    try:
        exchange = read_stream(Decoder().feed(body)) if _is_stream(body) else as_exchange(body)
    except InputError:
        return _as_it_came(shown, body)
    verdict, text = classify_text(exchange.response)
    marked = _with_evidence(shown, text, verdict.findings)
    signals = tuple(f"{signal.path} = {signal.value}" for signal in verdict.signals)
    return DisclosedText(
        marked.name,
        marked.state,
        marked.size_bytes,
        marked.digest,
        text,
        marked.spans,
        signals + marked.evidence,
        verdict,
    )


def _with_evidence(shown: DisclosedText, text: str, findings: Sequence[Finding]) -> DisclosedText:
    lines = tuple(f"{found.weight:+.2f} {found.category}: {found.rule}" for found in findings[:_MOST_EVIDENCE])
    spans = tuple(found.span for found in findings)
    return DisclosedText(shown.name, shown.state, shown.size_bytes, shown.digest, text, spans, lines)


def _as_it_came(shown: DisclosedText, body: bytes) -> DisclosedText:
    state = "meets its commitment; of no known shape, as it came"
    return DisclosedText(shown.name, state, shown.size_bytes, shown.digest, body.decode(errors="replace"), raw=True)


def _is_stream(body: bytes) -> bool:
    return body.lstrip().startswith((b"event:", b"data:", b":"))
