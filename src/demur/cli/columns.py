"""Which column of a user's rows is what: flags, and `[columns]` in demur.toml, the same for every command that reads rows."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

from demur.cli.options import Once
from demur.io.settings import Setting, SettingsSource
from demur.model.columns import Columns, label_pairs

if TYPE_CHECKING:
    import argparse

__all__ = ["COLUMN_SETTINGS", "ColumnSettings", "add_column_flags", "columns_of_flags"]


@dataclass(frozen=True, slots=True)
class ColumnSettings:
    """The table `[columns]` of demur.toml."""

    response_field: Annotated[str, Setting("the column of the responses: rows are flat", flag="--response-field")] = ""
    prompt_field: Annotated[str, Setting("the column of the prompts", flag="--prompt-field")] = ""
    id_field: Annotated[str, Setting("the column of the ids", flag="--id-field")] = ""
    session_field: Annotated[str, Setting("the column of the sessions", flag="--session-field")] = ""
    label_field: Annotated[str, Setting("the column of people's labels", flag="--label-field")] = ""
    label_map: Annotated[
        tuple[str, ...], Setting("what the labels mean: 1=refusal,0=compliance", flag="--label-map")
    ] = ()


COLUMN_SETTINGS = SettingsSource(ColumnSettings, "columns", page="docs/howto_your_columns.md", qualified=True)


def add_column_flags(command: argparse.ArgumentParser) -> None:
    """Add a flag for each column that can be named."""
    group = command.add_argument_group("your columns (docs/howto_your_columns.md; [columns] in demur.toml)")
    for name, declared in COLUMN_SETTINGS.declared.items():
        shown = "VALUE=WORD,…" if name == "label_map" else "COLUMN"
        group.add_argument(str(declared.about.flag), metavar=shown, action=Once, help=declared.about.what)


def columns_of_flags(args: argparse.Namespace) -> Columns:
    """Return the columns that flags, variables and demur.toml name, in this order; a flag with an empty name is none."""
    given = {name: getattr(args, name, None) for name in COLUMN_SETTINGS.declared}
    settings = COLUMN_SETTINGS.load(flags={name: word for name, word in given.items() if word is not None}).settings
    names = {name: word or None for name, word in asdict(settings).items() if name != "label_map"}
    return Columns(**names, label_map=label_pairs(settings.label_map))
