"""A view as one HTML file, and the template environment that all our pages are rendered in.

The file loads nothing and runs nothing, is light or dark as the reader's system asks, and fits a phone and a printer. The same view gives
the same bytes; rows beyond a screenful are folded away, never left out.
"""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib import resources
from itertools import groupby
from typing import TYPE_CHECKING

from demur.report.charts import flip_segments, interval_chart, reliability_chart
from demur.report.markup import marked, visible
from demur.report.view import Heading

if TYPE_CHECKING:
    from jinja2 import Environment

    from demur.report.view import View

__all__ = ["environment", "html", "package_text"]

_SUMMARY_SHOWN = 160


def html(view: View) -> str:
    """Return the whole page."""
    style = package_text("demur.report", "report.css")
    sections, level = [], 2
    for kind, run in groupby(view.blocks, key=type):
        blocks = list(run)
        level = blocks[-1].level + 1 if isinstance(blocks[-1], Heading) else level
        sections.append((kind.__name__, level, blocks))
    return (
        environment("demur.report")
        .get_template("page.html")
        .render(
            view=view,
            sections=sections,
            style=style,
            # The page may load nothing, and apply no style but this one (CSP level 2, hash sources).
            style_digest=b64encode(sha256(style.encode()).digest()).decode(),
        )
    )


@cache
def package_text(package: str, name: str) -> str:
    """Return a file among a package's templates, such as its style."""
    return resources.files(package).joinpath("templates", name).read_text(encoding="utf-8")


@cache
def environment(*packages: str) -> Environment:
    """Return the environment for the templates of these packages, the first one searched first; each template is compiled once."""
    # Imported here: commands that print to a terminal must not wait for it.
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    env = Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in packages]),
        autoescape=True,
        # Templates are part of the package: nobody edits them while it runs.
        auto_reload=False,
        # A misspelt name is an error, never an empty place.
        undefined=StrictUndefined,
        finalize=_visible_only,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters |= {"commas": "{:,}".format, "first_line": _first_line, "marked": marked}
    # Charts are worked out where they are drawn, so that a template needs nothing but the view.
    env.globals |= {
        "flip_segments": flip_segments,
        "interval_chart": interval_chart,
        "reliability_chart": reliability_chart,
    }
    return env


def _visible_only(value: object) -> object:
    """Return what a template prints; whatever is not markup already goes on to be escaped."""
    # Called for every value of a page, and most are plain strings.
    if type(value) is str:
        return value if value.isprintable() else visible(value)
    return visible(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def _first_line(text: str) -> str:
    """Return the beginning of a text in one line."""
    flat = " ".join(text[: 2 * _SUMMARY_SHOWN].split())
    return flat if len(flat) <= _SUMMARY_SHOWN and len(text) <= 2 * _SUMMARY_SHOWN else flat[:_SUMMARY_SHOWN] + "…"
