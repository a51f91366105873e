"""The characters that a text means, whatever way it was typed: NFKC, case, quotation marks, dashes, white space, look-alikes.

`fold(t) == normalise(t).text`, folding twice changes nothing, and time is linear. Normalising `original[span(i, j)]` gives
`text[i:j]` for every i and j that do not cut the replacement of one original span, except that a look-alike may need the
rest of its word to be recognised as one.

The view: the text that detectors scan, folded, with plain punctuation for every script, and with its lines kept.

`view(t) == view_of(t).text`; every non-ASCII character of a view is a letter, a digit or a mark, so the edge of a word can be
read off the ASCII characters alone; offsets map back as those of `normalise` do.
"""

from __future__ import annotations

import json
import pkgutil
import re
import unicodedata
from functools import cache, lru_cache
from unicodedata import normalize

from demur.model.verdict import NormalText
from demur.text.offsets import Edit, Rewritten, compose, rewrite

__all__ = [
    "GROWTH",
    "STACK",
    "confusables",
    "fold",
    "normalise",
    "pattern",
    "replacements",
    "table",
    "translate_ascii_lines",
    "view",
    "view_of",
]

GROWTH = 18  # the most that one character may become: U+FDFA is eighteen

STACK = 4  # marks on one letter that are still writing; Vietnamese, Hebrew and polytonic Greek need fewer

_MEMO_LENGTH = 8
_SETTLE_ROUNDS = 4
_WHITE = b"\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f"
_CONTROLS = bytes(code for code in (*range(32), 127) if code not in _WHITE)
_ASCII = bytes.maketrans(
    bytes(range(65, 91)) + _WHITE + _CONTROLS, bytes(range(97, 123)) + b" " * len(_WHITE) + b"\0" * len(_CONTROLS)
)
_ASCII_LINES = _ASCII[:10] + b"\n" + _ASCII[11:]
_LINE = "\uf8ff"  # stands for a line feed on the careful path: a private character that no rule touches
_SPACES = re.compile("  +")
_WORD = re.compile(r"\w+")

# One-to-one replacements so frequent that a `str.replace` each is cheaper than a search for all.
_COMMON = tuple(zip("’‘“”–—\xa0，：；！？（）「」\u3000", '\'\'""-- ,:;!?()"" ', strict=True))

_IRREGULAR = "[<irregular>][<continuing>]*"
_IRREGULAR_OR_SPACES = "[<irregular> ](?:(?<! )[<continuing>]*|(?= ) +)"
_SAMPLE = 64
_SCRIPTS = r"\u0370-\u058f\u13a0-\u13fd\u2c80-\u2cff\ua4d0-\ua4ff\u0251\u0261\u0269"
_FOREIGN = f"[{_SCRIPTS}]"
_LATIN = r"[a-z\u00e0-\u0250]"
_FROM_FOREIGN = rf"[{_SCRIPTS}](?:(?=[^\W{_SCRIPTS}])|(?<=[^\W{_SCRIPTS}].))"
_FROM_LATIN = rf"[^\W{_SCRIPTS}](?:(?=[{_SCRIPTS}])|(?<=[{_SCRIPTS}].))"


def normalise(text: str, *, lines: bool = False) -> NormalText:
    """Return the folded text with offsets in the original; with `lines`, line feeds stay what they are."""
    common = text if text.isascii() else _with_common(text)
    plain = _plain_ascii(common, _ASCII_LINES if lines else _ASCII)
    if plain is None:
        done = _careful(common, lines=lines)
    elif "  " in plain:
        # The edits that leave one space of each run: `str.find` skips the words faster than a pattern does.
        edits: list[Edit] = []
        run, find = _SPACES.match, plain.find
        start = find("  ")
        while start >= 0:
            end = found.end() if (found := run(plain, start)) else start
            edits.append((start, end, " "))
            start = find("  ", end)
        done = rewrite(plain, edits)
    else:
        return NormalText(text, plain)
    return NormalText(text, done.text, done.starts, done.ends)


def fold(text: str, *, lines: bool = False) -> str:
    """Return the folded text alone."""
    common = text if text.isascii() else _with_common(text)
    plain = _plain_ascii(common, _ASCII_LINES if lines else _ASCII)
    if plain is None:
        return _careful(common, lines=lines).text
    # One space stays at both ends of the text as well, so that pieces of a stream can be joined.
    while "  " in plain:
        plain = plain.replace("  ", " ")
    return plain


def translate_ascii_lines(text: str) -> bytes:
    """Return ASCII text in lower case, line feeds kept, other white space as spaces, control characters as NUL."""
    return text.encode("ascii").translate(_ASCII_LINES)


def _with_common(text: str) -> str:
    for old, new in _COMMON:
        if old in text:
            text = text.replace(old, new)
    return text


def _plain_ascii(text: str, table: bytes) -> str | None:
    """Return the text in lower case with white space as spaces, or None where that is not all there is to do."""
    if not text.isascii():
        return None
    # Control characters become NUL and are removed on the careful path, which keeps offsets.
    folded = text.encode("ascii").translate(table)
    return None if b"\0" in folded else folded.decode("ascii")


def _careful(text: str, *, lines: bool) -> Rewritten:
    """Return the rewriting of any text whose common characters have been replaced."""
    if lines:
        done = _careful(text.replace(_LINE, " ").replace("\n", _LINE), lines=False)
        return Rewritten(done.text.replace(_LINE, "\n"), done.starts, done.ends)
    text = text.replace("\n", " ")
    template = _IRREGULAR_OR_SPACES if "  " in text else _IRREGULAR
    done = rewrite(text, _edits(text, pattern(template)))
    folded = done.text.casefold()
    if len(folded) != len(done.text):
        # A few composed letters (U+01F0) fold to two characters that NFKC joins again: they are folded already.
        folded = "".join([char if len(char.casefold()) > 1 else char.casefold() for char in done.text])
    return Rewritten(_without_confusables(folded), done.starts, done.ends)


def _edits(text: str, irregular: re.Pattern[str]) -> list[Edit]:
    """Return the edits that settle every irregular cluster and leave no two spaces side by side."""
    edits: list[Edit] = []
    done, last = 0, ""
    for found in irregular.finditer(text):
        start, end = found.span()
        cluster = found[0]
        leans, new = _settle_memo(cluster) if end - start <= _MEMO_LENGTH else _settle(cluster)
        if leans and start > done:
            start -= 1
            cluster = text[start] + cluster
            new = (_settle_memo if len(cluster) <= _MEMO_LENGTH else _settle)(cluster)[1]
        if new == cluster:
            continue
        if start > done:
            if last == " " == text[done]:
                edits.append((done, done + 1, ""))
            if start > done + 1 or last != " " or text[done] != " ":
                last = text[start - 1]
        if last == " " == new[:1]:
            new = new[1:]
        edits.append((start, end, new))
        done, last = end, new[-1:] or last
    if last == " " == text[done : done + 1]:
        edits.append((done, done + 1, ""))
    return edits


def _settle(cluster: str) -> tuple[bool, str]:
    """Return whether the cluster leans on the character before it, and what it folds to."""
    # What NFKC makes may be replaced once more; folding twice must change nothing.
    folded = _settle_once(cluster)
    for _ in range(_SETTLE_ROUNDS):
        again = _settle_once(folded)
        if again == folded:
            break
        folded = again
    leans = pattern("[<ignorable>]*(?![<ignorable>])[<continuing>]").match(cluster)
    return leans is not None, folded


_settle_memo = lru_cache(maxsize=8192)(_settle)


def _settle_once(cluster: str) -> str:
    # A stack is capped before NFKC, whose canonical ordering is an insertion sort, and after it, since marks decompose.
    known = _capped(cluster.translate(replacements()))
    folded = normalize("NFKC", normalize("NFKC", known).casefold())
    # Marks of no script that did not compose with their letter are decoration ("Zalgo" text).
    folded = _capped(pattern("[<generic>]+").sub("", folded).translate(replacements()))
    return _SPACES.sub(" ", folded)


def _capped(cluster: str) -> str:
    if len(cluster) <= STACK:
        return cluster
    generic = pattern("[<generic>]+")
    stacks = pattern(f"[<stacking>]{{{STACK + 1},}}")
    return stacks.sub(lambda stack: generic.sub("", stack[0])[:STACK], cluster)


def _without_confusables(text: str) -> str:
    """Return the folded text with the look-alikes of mixed words in Latin."""
    if text.isascii():
        return text

    def latinise(found: re.Match[str]) -> str:
        word, known = found[0], confusables()
        if word.isascii() or not pattern(_LATIN).search(word):
            return word
        # A foreign letter that looks like no Latin one shows that the word really is Cyrillic, Greek…
        if any(letter not in known for letter in pattern(_FOREIGN).findall(word)):
            return word
        return "".join([known.get(letter, letter) for letter in word])

    # Either pattern finds the same seam; the search is short where the letters that it starts from are few.
    sample = text[:_SAMPLE]
    rare = _FROM_LATIN if len(pattern(_FOREIGN).findall(sample)) > len(sample) // 2 else _FROM_FOREIGN
    return _WORD.sub(latinise, text) if pattern(rare).search(text) else text


@cache
def _data(name: str) -> dict[str, str]:
    found: dict[str, str] = json.loads(pkgutil.get_data(__package__, name) or b"{}")
    return found


@cache
def table(name: str) -> str:
    """Return a table's characters as the inside of a regular expression's character class."""
    spans = (part.partition("-") for part in _data("tables.json")[name].split())
    return "".join(_escape(low) + ("-" + _escape(high) if high else "") for low, _, high in spans)


def _escape(code: str) -> str:
    return f"\\U{int(code, 16):08x}"


@cache
def pattern(template: str) -> re.Pattern[str]:
    """Return the compiled template, where `<name>` stands for the characters of that table."""
    return re.compile(re.sub(r"<(\w+)>", lambda found: table(found[1]), template), re.DOTALL)


@cache
def confusables() -> dict[str, str]:
    """Return each look-alike letter, case-folded, with the Latin letter that it imitates."""
    return {char: latin for latin, chars in _data("confusables.json").items() for char in chars}


@cache
def replacements() -> dict[int, str | None]:
    """Return the table for `str.translate`: quotes, dashes, small capitals; white space; what vanishes; surrogates."""
    # A lone surrogate becomes U+FFFD, so that the result can always be encoded.
    found: dict[int, str | None] = dict.fromkeys(range(0xD800, 0xE000), "\ufffd")
    found |= dict.fromkeys(_codes("space"), " ") | dict.fromkeys(_codes("ignorable"), None)
    return found | {ord(char): new for new, chars in _data("replacements.json").items() for char in chars}


def _codes(name: str) -> list[int]:
    spans = (part.partition("-") for part in _data("tables.json")[name].split())
    return [code for low, _, high in spans for code in range(int(low, 16), int(high or low, 16) + 1)]


_STARS = re.compile(r"\*+")
_SYMBOL = re.compile(r"[^\x00-\x7f\w]")
# Ends of sentences in other scripts become `!` or `?`, which end one without a space after them.
_PLAIN = {"。": "!", "।": "!", "॥": "!", "۔": "!", "؟": "?", "¿": "?", "¡": "!", "、": ",", "،": ",", "؛": ";"}
_PLAIN |= dict.fromkeys("•·‣▪●○◦■□▶➤‧・✓✔➢", "-")


def view_of(text: str) -> NormalText:
    """Return the view with offsets in the original."""
    folded = normalise(text, lines=True)
    plain = folded.text if folded.text.isascii() else _SYMBOL.sub(_plain, folded.text)
    folded = NormalText(text, plain, folded.starts, folded.ends)
    if "*" not in plain:
        return folded
    # Markdown's emphasis splits phrases ("I **cannot** help"), a bullet starts an item.
    bulleted = _bulleted(plain)
    bare = rewrite(bulleted, [(found.start(), found.end(), "") for found in _STARS.finditer(bulleted)])
    return compose(folded, NormalText(plain, bare.text, bare.starts, bare.ends))


def view(text: str) -> str:
    """Return the view alone."""
    folded = fold(text, lines=True)
    plain = folded if folded.isascii() else _SYMBOL.sub(_plain, folded)
    return _bulleted(plain).replace("*", "") if "*" in plain else plain


def _bulleted(plain: str) -> str:
    """Return the text with a hyphen for each asterisk that starts a list item."""
    if "* " not in plain:
        return plain
    return ("\n" + plain).replace("\n* ", "\n- ").replace("\n * ", "\n - ")[1:]


def _plain(found: re.Match[str]) -> str:
    return _plain_char(found[0])


@lru_cache(maxsize=4096)
def _plain_char(char: str) -> str:
    """Return the replacement of a non-ASCII character outside words."""
    # `\w` leaves out combining marks, which belong to words; emoji, arrows and box drawing become spaces.
    return _PLAIN.get(char) or (char if unicodedata.category(char)[0] == "M" else " ")
