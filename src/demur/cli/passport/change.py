"""`demur passport disclose`, `erase`, `rotate` and `keys`: texts and keys, and putting on record what was done to them."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from demur.cli.passport.words import find_entry, open_log, place_of, print_object, print_row, print_wrapped, write_bytes
from demur.errors import UsageError
from demur.model.passport import Commitment, Erasure, KeyRotation, Passport
from demur.record.checkpoint import Checkpoint, NoteKey, issue_checkpoint
from demur.record.commit import meets
from demur.record.keys import write_keys
from demur.record.seal import open_sealed, seal
from demur.record.store.anchor_files import AnchorFile
from demur.record.store.sealing import EntrySealer, utc_now
from demur.report.diff_words import counted
from demur.report.json import safe_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from demur.record.keys import Signer
    from demur.record.store.location import LogPlace
    from demur.record.store.log_store import LogStore

__all__ = ["run_disclose", "run_erase", "run_keys", "run_rotate"]

# Further back Python's dates would overflow.
_MAX_DAYS = 365_000.0


def run_disclose(args: argparse.Namespace) -> int:
    """Return the exit code: 1 where a text does not match its commitment."""
    place = place_of(args)
    with open_log(place) as store:
        row = find_entry(store, args)
    named = _commitments(_passport_in(row.envelope))
    wanted = {name: each for name, each in named.items() if args.what in (None, name)}
    if not wanted:
        raise UsageError(f"the record commits to no `{args.what}`", hint=f"choose from {', '.join(named) or 'nothing'}")
    rows: list[dict[str, object]] = []
    with closing(place.disclosures(utc_now, read_only=True)) as texts:
        for name, commitment in wanted.items():
            kept = texts.get(commitment.digest)
            # Only a text that matches is shown: another one would be taken for the one on record.
            state = "erased or never kept" if kept is None else "meets" if meets(kept, commitment) else "does not meet"
            shown = kept is not None and state == "meets"
            text = kept.text.decode(errors="replace") if shown and kept else None
            salt = kept.salt.hex() if shown and kept else None
            rows.append({"what": name, "digest": commitment.digest, "state": state, "salt": salt, "text": text})
    if args.json:
        print_object({"record": row.index, "disclosed": rows})
    else:
        for each in rows:
            print_wrapped(f"{each['what']} ({str(each['digest'])[:16]}…): {each['state']}")
            if each["text"] is not None:
                print(safe_text(str(each["text"])))
    return int(any(each["state"] == "does not meet" for each in rows))


def _passport_in(envelope: bytes) -> Passport:
    entry = open_sealed(envelope).entry
    if not isinstance(entry, Passport):
        raise UsageError("the record is no passport, so no text is behind it", hint="see `demur passport show`")
    return entry


def _commitments(passport: Passport) -> dict[str, Commitment]:
    texts = {"request": passport.request, "response": passport.response}
    named = {name: each for name, each in texts.items() if each is not None}
    return named | {item.claim: item.commitment for phase in passport.phases for item in phase.withheld}


def run_erase(args: argparse.Namespace) -> int:
    """Return the exit code."""
    place = place_of(args)
    with closing(place.disclosures(utc_now)) as texts, open_log(place, read_only=False) as store:
        # Whatever would keep the erasure from being recorded has to be found before a text is gone.
        keys = place.keys() if place.keys().exists else None
        if keys is None:
            # Only a log that was written with `signing: none` may be continued without a key.
            size = store.frontier().size
            ends = (row for index in {0, max(size - 1, 0)} for row in store.entries(index, index + 1))
            if any(open_sealed(row.envelope).key_id is not None for row in ends):
                what = f"the log is signed and there is no key in `{place.folder}`"
                raise UsageError(what, hint="give the --folder that its key is in")
        sealer = EntrySealer(keys, utc_now)
        with store.exclusive() as held:
            sealer.renew(held)
        # First the texts, then the record of it: the log must never say that a text is gone which is not.
        erased = texts.erase(_digests_to_erase(store, args, older=texts.kept_before))
        if not erased:
            raise UsageError("nothing to erase is kept any more", hint="see `demur passport disclose`")
        with store.exclusive() as held:
            sealer.renew(held)
            (index,) = held.append([sealer.seal(Erasure(utc_now(), erased, args.reason))])
    if args.json:
        print_object({"erased": erased, "record": index, "reason": args.reason})
    else:
        print_wrapped(f"{counted(len(erased), 'text')} erased; record {index} says so")
    return 0


def _digests_to_erase(
    store: LogStore, args: argparse.Namespace, *, older: Callable[[str], tuple[str, ...]]
) -> list[str]:
    digests = list(args.digest)
    if args.older_than is not None:
        if not 0 <= args.older_than <= _MAX_DAYS:
            hint = "give the days that texts are kept, such as 30"
            raise UsageError(f"`{args.older_than:g}` days ago is no time", hint=hint)
        before = datetime.now(UTC) - timedelta(days=args.older_than)
        digests += older(before.strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
    if args.index is None and args.session is None:
        if not args.digest and args.older_than is None:
            raise UsageError("erase what?", hint="name a record, --session, --digest or --older-than")
        return digests
    last = find_entry(store, args)
    numbers = range(last.seq + 1) if args.all and args.session is not None and last.seq is not None else ()
    rows = [store.session_entry(args.session, number) for number in numbers] or [last]
    for row in rows:
        if row is not None:
            digests += [each.digest for each in _commitments(_passport_in(row.envelope)).values()]
    return digests


def run_rotate(args: argparse.Namespace) -> int:
    """Return the exit code."""
    place = place_of(args)
    keys = place.keys()
    if not keys.exists:
        raise UsageError("there is no key to rotate", hint="a gateway makes one when it first signs")
    with open_log(place, read_only=False) as store:
        now = utc_now()
        old = keys.signer(now)
        # The old key signs for all before the rotation, since afterwards it counts no more.
        _sign(store, place, old)
        # On disk before the log names it: a crash must not leave a log whose next key is lost.
        new = keys.prepare_next(now)
        with store.exclusive() as held:
            at = utc_now()
            named = replace(new.public, not_before=at)
            (index,) = held.append([open_sealed(seal(KeyRotation(at, named), old))])
        # Under the lock, so that no gateway signs with the old key once the log has named the new one.
        with store.exclusive():
            keys.renew(old.public.key_id, at)
        _sign(store, place, keys.signer(at))
    if args.json:
        print_object({"old": old.public.key_id, "new": named.key_id, "record": index, "at": at})
    else:
        print_wrapped(f"{old.public.key_id} hands over to {named.key_id}: record {index}")
        print_wrapped(f"give readers the new list: {keys.public_file}")
    return 0


def _sign(store: LogStore, place: LogPlace, signer: Signer) -> None:
    with store.exclusive() as held:
        frontier = held.frontier()
        retired = held.is_retired(signer.public.key_id)
    if not frontier.size or retired:
        return
    note = issue_checkpoint(Checkpoint(store.origin, frontier.size, frontier.root()), signer)
    if place.anchors is not None:
        anchors = AnchorFile(place.anchors)
        if anchors.torn_bytes:
            print_wrapped(f"an unfinished checkpoint was cut off the end of {place.anchors}")
        note = anchors.add(note, store.node)
    store.add_checkpoint(frontier.size, note)


def run_keys(args: argparse.Namespace) -> int:
    """Return the exit code."""
    place = place_of(args)
    keys = place.keys().public()
    if not keys:
        raise UsageError("no key was made here yet", hint="a gateway makes one when it first signs")
    if args.out != "-" or args.json:
        write_bytes(args.out, write_keys(keys))
        return 0
    with open_log(place) as store:
        origin = store.origin
    for key in keys:
        print_wrapped(f"{key.key_id}: from {key.not_before or 'ever'} to {key.not_after or 'further notice'}")
        print_row("  key", key.ed25519)
        print_row("  for notes", NoteKey(origin, key).text)
    print_wrapped(f"private key: {Path(place.folder or '') / 'signing.pem'}, for its owner alone")
    return 0
