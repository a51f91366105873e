"""What the site has that the pages in docs/ do not: the reference of the command line, and paths in place of links that leave docs/.

Laws: the reference is written from the parser that the program runs, so that it cannot be out of date; a page reads the same in the
repository, where its links to files work, and on the site, where those files are not.
"""

from __future__ import annotations

import argparse
import re
from html import escape
from typing import TYPE_CHECKING

from demur.cli.main import parser

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mkdocs.structure.pages import Page

COMMANDS_HERE = "<!-- commands -->"
# Their tables take the room of the contents beside them.
WIDE_PAGES = ("settings.md",)


def on_page_markdown(markdown: str, page: Page, **_others: object) -> str:
    """Return a page as the site shows it."""
    if page.file.src_uri in WIDE_PAGES:
        page.meta["hide"] = ["toc"]
    if page.file.src_uri == "cli.md":
        markdown = markdown.replace(COMMANDS_HERE, command_reference())
    # From a page in a folder of docs/, one step up is still a page of the site.
    up = "../" * (1 + page.file.src_uri.count("/"))
    return re.sub(rf"\[([^\]]+)\]\({re.escape(up)}([^)#]+)\)", _path_of, markdown)


def command_reference() -> str:
    """Return a section of Markdown for every command, and one below it for every step of a command."""
    return "\n\n".join(part for command in _below(parser()) for part in _section(command, level=2))


def _path_of(link: re.Match[str]) -> str:
    text, path = link[1], link[2]
    return f"`{path}`" if text.strip("`") in path else f"{text} (`{path}`)"


def _below(command: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield the parsers of a command's sub-commands, in the order of its help."""
    for action in command._actions:  # noqa: SLF001 - argparse tells it nowhere else
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - as above
            yield from action.choices.values()


def _section(command: argparse.ArgumentParser, *, level: int) -> Iterator[str]:
    yield f"{'#' * level} `{command.prog}` {{ #{command.prog.replace(' ', '-')} }}"
    yield escape(command.description or "", quote=False)
    yield f"```text\n{_usage(command)}\n```"
    for group in command._action_groups:  # noqa: SLF001 - as above
        yield from _table(group)
    if command.epilog:
        yield f"```text\n{command.epilog.strip()}\n```"
    for step in _below(command):
        yield from _section(step, level=level + 1)


def _usage(command: argparse.ArgumentParser) -> str:
    return command.format_usage().removeprefix("usage: ").strip()


def _table(group: argparse._ArgumentGroup) -> Iterator[str]:
    """Yield a table of one group's arguments; in HTML, since a bar in a name would end a cell of Markdown."""
    rows = [
        f"<tr><td><code>{escape(_named(action))}</code></td><td>{escape(_help(action))}</td></tr>"
        for action in group._group_actions  # noqa: SLF001 - as above
        if action.help is not argparse.SUPPRESS
        and not isinstance(action, argparse._HelpAction | argparse._SubParsersAction)  # noqa: SLF001 - as above
    ]
    if rows:
        title = (group.title or "").removeprefix("positional ")
        head = f"<thead><tr><th>{escape(title)}</th><th>meaning</th></tr></thead>"
        yield f"<table>{head}<tbody>{''.join(rows)}</tbody></table>"


def _named(action: argparse.Action) -> str:
    value = _value(action)
    if not action.option_strings:
        return value
    flags = ", ".join(action.option_strings)
    if action.nargs == 0:
        return flags
    return f"{flags} [{value}]" if action.nargs == "?" else f"{flags} {value}"


def _value(action: argparse.Action) -> str:
    if isinstance(action.metavar, str):
        return action.metavar
    return "|".join(map(str, action.choices)) if action.choices else action.dest.upper()


def _help(action: argparse.Action) -> str:
    return (action.help or "") % {**vars(action), "prog": ""}
