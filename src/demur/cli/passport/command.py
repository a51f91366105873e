"""`demur passport`: verify, show, prove, export, disclose, erase, rates, rotate, keys."""

from __future__ import annotations

import argparse
from importlib import import_module

from demur.errors import UsageError

__all__ = ["add_parser"]

_ABOUT_STORES = """\
STORE is a folder that a gateway writes to, its log.db, or the address of
a database (postgresql://…; the keys are then in --folder).
"""
_ABOUT_RECORDS = """\
A record is named by its place in the log (0 is the first); by the
beginning, 8 digits or more, of its leaf or of a digest in it, such as
the id that a gateway answers with (x-demur-passport); or by --session,
of which it is the last unless --seq says which.
"""
_VERIFY = f"""\
examples:
  demur passport verify passports/
  demur passport verify passports/ --policy policies/ \\
      --checkpoint kept-elsewhere.txt --keys keys.json
  demur passport verify export.jsonl --keys keys.json
  demur passport verify bundle.json --keys keys.json --json

What is verified: a STORE, an export (.jsonl, .parquet), a bundle of
`prove`, or one envelope. Nothing is asked of any network.

{_ABOUT_STORES}
Trust comes from you: --keys is the owner's list, had from the owner;
--checkpoint is one that you kept. Without them a store is held against
what lies beside it, which its owner could have rewritten.

exit codes: 0 what was checked holds, 1 something does not (the first bad
record is named), 2 it cannot be checked at all
"""
_SHOW = f"""\
examples:
  demur passport show passports/ 5
  demur passport show passports/ 9f86d081
  demur passport show passports/ --session 7f2c --seq 0 --json
  demur passport show bundle.json

{_ABOUT_STORES}
{_ABOUT_RECORDS}"""
_PROVE = f"""\
examples:
  demur passport prove passports/ 5 --out bundle.json
  demur passport verify bundle.json --keys keys.json

{_ABOUT_STORES}
{_ABOUT_RECORDS}
The record must be covered by a checkpoint: gateways sign one every
minute, every thousand records, and when they stop.
"""
_EXPORT = f"""\
examples:
  demur passport export passports/ --out log.jsonl
  demur passport export passports/ --out log.parquet --start 1000
  demur passport export passports/ | jq 'select(.kind=="passport")'

{_ABOUT_STORES}"""
_DISCLOSE = f"""\
examples:
  demur passport disclose passports/ 5
  demur passport disclose passports/ --session 7f2c --what response

{_ABOUT_STORES}
{_ABOUT_RECORDS}
A text is shown only where it meets what the record committed to.
"""
_ERASE = f"""\
examples:
  demur passport erase passports/ 5 --reason "asked by the user"
  demur passport erase passports/ --session 7f2c --all --reason …
  demur passport erase passports/ --older-than 30 --reason retention

{_ABOUT_STORES}
{_ABOUT_RECORDS}
Salts and texts are deleted for good and the erasure is put on record;
the log stays as it was and verifies as before.
"""
_RATES = f"""\
examples:
  demur passport rates passports/
  demur passport rates passports/ --by model,day --since 2026-01-01
  demur passport rates passports/ --by decision --json

{_ABOUT_STORES}
Three rates, never one: denied by the gateway (of all exchanges),
filtered by the provider and refused by the model (of those that a
provider answered). Intervals are 95 %, Wilson.
"""
_ROTATE = f"""\
examples:
  demur passport rotate passports/

{_ABOUT_STORES}
The old key signs the rotation into the log, then the new one signs.
Gateways that run take the new key with their next record.
"""
_KEYS = f"""\
examples:
  demur passport keys passports/
  demur passport keys passports/ --out keys.json

{_ABOUT_STORES}
The list is public. Hand it over by a way that is not the log's own.
"""
# Each step: the module that runs it, its help, its examples. The module is only a name, so that help needs none of them.
_STEPS = {
    "verify": ("verify", "is a log, an export or one passport what it says to be", _VERIFY),
    "show": ("show", "what does a record say", _SHOW),
    "prove": ("show", "one passport with the proof that it is in the log", _PROVE),
    "export": ("show", "the records as JSON lines or Parquet", _EXPORT),
    "disclose": ("change", "the texts behind a record", _DISCLOSE),
    "erase": ("change", "delete salts and texts, on record", _ERASE),
    "rates": ("show", "how often the answer was no, and whose no it was", _RATES),
    "rotate": ("change", "put a new signing key in place of the old", _ROTATE),
    "keys": ("change", "the public keys, for those who verify", _KEYS),
}
_OF_ONE_RECORD = ("show", "prove", "disclose", "erase")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "passport",
        help="verify, show or prove what was recorded",
        description="Verifies, shows, proves and exports the signed record of exchanges.",
        epilog="examples:\n  demur passport verify passports/\n  demur passport rates passports/ --by model,day\n"
        "  demur passport prove passports/ 5 --out bundle.json",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    steps = command.add_subparsers(dest="step", metavar="STEP", required=True)
    for name, (_, about, epilog) in _STEPS.items():
        step = steps.add_parser(
            name,
            help=about,
            description=f"{about[0].upper()}{about[1:]}.",
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            # A script that abbreviates a flag would break as soon as another one begins alike.
            allow_abbrev=False,
        )
        step.add_argument("store", metavar="STORE", help="a folder, a file, or a database")
        if name in _OF_ONE_RECORD:
            step.add_argument("index", metavar="RECORD", nargs="?", help="its place in the log, or a digest")
            step.add_argument("--session", metavar="ID", help="a record of this session")
            step.add_argument("--seq", metavar="N", type=int, help="its number in the session (default: the last)")
        step.add_argument("--folder", metavar="DIR", help="where keys and checkpoints are, if not in STORE")
        step.add_argument("--json", action="store_true", help="one JSON object")
        _add_flags(name, step)
        step.set_defaults(run=run)


def _add_flags(name: str, step: argparse.ArgumentParser) -> None:
    add = step.add_argument
    match name:
        case "verify":
            add("--keys", metavar="FILE", help="the owner's public keys, as `keys` writes them")
            add("--origin", metavar="NAME", help="the log's name (default: what it says)")
            add("--checkpoint", metavar="FILE", action="append", default=[], help="checkpoints that you kept")
            add("--witness", metavar="KEY", action="append", default=[], help="a second signer: name+id+key")
            add("--policy", metavar="PATH", action="append", default=[], help="a policy set to replay decisions with")
            add("--default", choices=["allow", "deny"], default="allow", help="what held where no rule fired")
            add("--vocabulary", metavar="FILE", help="which claims there were, as JSON")
            add("--allow-unsigned", action="store_true", help="forgive records stamped as unsigned")
            add("--clock-slack", metavar="S", type=float, default=5.0, help="seconds that clocks may differ (5)")
        case "prove" | "keys":
            add("--out", metavar="FILE", default="-", help="where to write it (default: standard output)")
        case "export":
            add("--out", metavar="FILE", default="-", help=".jsonl or .parquet (default: lines to standard output)")
            add("--start", metavar="N", type=int, default=0, help="the first record (0)")
            add("--stop", metavar="N", type=int, help="the record to stop before (default: all)")
        case "disclose":
            add("--what", metavar="NAME", help="request, response, or a claim's name (default: all)")
        case "erase":
            add("--all", action="store_true", help="all records of the session")
            add("--digest", metavar="HEX", action="append", default=[], help="what is behind this commitment")
            add("--older-than", metavar="DAYS", type=float, help="everything kept for longer")
            # Required: whoever reads the log later has to learn why a text is gone.
            add("--reason", metavar="TEXT", required=True, help="goes on record")
        case "rates":
            add(
                "--by", metavar="FIELD", action="append", default=[], help="model, day, hour, decision (repeat, or a,b)"
            )
            add("--since", metavar="DAY", default="", help="from this day on, as 2026-01-31")
            # The tilde sorts behind every digit, so that without a day all of them are included.
            add("--until", metavar="DAY", default="~", help="up to and including this day")
        case _:
            pass


def run(args: argparse.Namespace) -> int:
    """Return the exit code of one call."""
    try:
        import cryptography  # noqa: F401 — the extra is looked for once, here
    except ModuleNotFoundError as exc:
        raise UsageError("passports need the cryptography package", hint="pip install 'demur[gateway]'") from exc
    # Only the step that runs is imported: the help of the others must not cost their imports.
    module, _, _ = _STEPS[args.step]
    code: int = getattr(import_module(f"demur.cli.passport.{module}"), f"run_{args.step}")(args)
    return code
