"""Which part of a response is judged, and its structure: speakers, sentences, quotations, lists.

Everything here is a part of one view (`demur.text.normalise`) and takes linear time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = [
    "DENSE",
    "MIN_SENTENCE",
    "Passage",
    "items",
    "quotation_limit",
    "quotations",
    "sentence_starts",
    "take_passage",
]

MIN_SENTENCE = 12  # a sentence end this close behind another one starts no sentence of its own ("No! No! …", "e. g.").

DENSE = 2.5  # how many characters of Latin script one of Chinese, Japanese or Korean is worth

# A mark that ends a sentence: first the mark alone, to which a search skips, then what makes a full stop one.
_STOP = re.compile(r"[.!?\n](?:(?<!\.)|(?<![0-9]\.)(?=[ \n\"')\]]))")
# The same patterns serve one text and a column of them, separated by NUL, hence `\\0`, which no view contains.
_QUOTED = re.compile('"[^"\\n\\0]{4,400}"')
_FENCE = "```"
_FIRST_ITEM = re.compile(r" ?(?:-|[0-9]{1,2}[.)])")
_ITEM = re.compile(r"\n ?(?:-|[0-9]{1,2}[.)])")

_ARTEFACT = re.compile(r"(?:<s>|</s>|<\|[a-z_]{1,20}\|>|\[/?inst\]|assistant:|ai:|[^\w\"`])+")
_LABEL = (
    r"\W{0,3}(?:[\[(][^\])\n\[(]{2,40}[\])]:?|\w[\w.#()-]{0,20}(?: [\w.#()-]{1,12})?:(?=[\s\"])"
    r"|as (?!an? |the |for |such|you|i |we |it |long|with|per|of |in |to |far|well|always|mentioned|much)"
    r"[\w.-]{2,16}(?: mode)?,|[α-ω](?=\s))"
)
_FIRST_LABEL = re.compile(_LABEL)
_LATER_LABEL = re.compile(r"\n" + _LABEL)
# Labels of a kind of text rather than of a speaker: what follows them is quoted, sung, sent or logged.
_NO_VOICE = re.compile(
    "translat|traduc|traduz|übersetz|перевод|译文|翻译|翻譯|訳|번역|ترجم|अनुवाद|subject|asunto|betreff|oggetto|assunto|objet|тема|件名|主题|"
    "제목|quote|script|lyrics|example|summary|chorus|verse|title|fatal|error|warning"
)
_HIGH = re.compile("[\u1100-\U0010ffff]")
_MIN_AFTER_LABEL = 15
_SAMPLE = 400
_DENSE_SHARE = 0.3
_QUOTED_SHARE = 0.97
_QUOTED_SHARE_OF_VOICES = 0.8


@dataclass(frozen=True, slots=True)
class Passage:
    """The part of a view that is judged: where it starts, its text, and how many voices speak in the whole."""

    start: int
    text: str
    speakers: int
    density: float
    before: str


def take_passage(view: str) -> Passage:
    """Return the part of a view that is judged; the whole of it where one voice speaks."""
    # A response with two voices ("[Normal] I cannot. [Free] Sure…") is judged by its second: what the reader got is what the
    # last speaker said.
    speakers, cut = _speakers(view)
    cut = cut if len(view) - cut > _MIN_AFTER_LABEL else 0
    before = view[:cut] if speakers > 1 else ""
    artefact = _ARTEFACT.match(view, cut)
    if artefact and artefact.end() < len(view):
        cut = artefact.end()
    text = view[cut:].rstrip(" \n")
    sample = text[:_SAMPLE]
    dense = not sample.isascii() and len(_HIGH.findall(sample)) > _DENSE_SHARE * len(sample)
    return Passage(cut, text, speakers, DENSE if dense else 1.0, before)


def sentence_starts(text: str) -> list[int]:
    """Return where the sentences of a passage start; a full stop ends one only before white space or a closing mark."""
    starts, last, size = [0], 0, len(text)
    for found in _STOP.finditer(text):
        end = found.end()
        if end - last >= MIN_SENTENCE and end < size:
            starts.append(end)
        last = end
    return starts


def items(text: str) -> list[int]:
    """Return where the list items of a passage start: lines that begin with a hyphen or a number."""
    first = [0] if _FIRST_ITEM.match(text) else []
    return first + [found.start() for found in _ITEM.finditer(text)]


def quotations(text: str) -> list[tuple[int, int]]:
    """Return the spans in quotation marks and in code fences; the two may overlap. NUL ends any of them."""
    spans = [found.span() for found in _QUOTED.finditer(text)] if '"' in text else []
    start = text.find(_FENCE)
    while start >= 0:
        close, limit = text.find(_FENCE, start + 3), text.find("\0", start)
        limit = limit if limit >= 0 else len(text)
        end = close + 3 if 0 <= close < limit else limit
        spans.append((start, end))
        start = text.find(_FENCE, end)
    return spans


def quotation_limit(passage: Passage) -> float:
    """Return the length from which on a quotation is the response itself, not something quoted in it."""
    return len(passage.text) * (_QUOTED_SHARE_OF_VOICES if passage.speakers > 1 else _QUOTED_SHARE)


def _speakers(view: str) -> tuple[int, int]:
    """Return how many voices speak (0 where none is named) and where the words of the judged one begin."""
    first = _FIRST_LABEL.match(view)
    if first is None:
        return 0, 0
    name = first[0].strip(' \n[]():"')
    if _NO_VOICE.match(name):
        return 0, 0
    for later in _LATER_LABEL.finditer(view, first.end()):
        if later[0].strip(' \n[]():"') != name:
            return 2, later.end()
    return 1, first.end()
