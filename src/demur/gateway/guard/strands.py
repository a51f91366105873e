"""Counts how much of each strand of a response has come, was scanned, and may go on.

Every character counts in exactly one strand, once. With a window as long as a phrase, no character of the phrase is free
before the scan that sees all of it. One case is weaker: a strand that rested and then goes on (text, a long tool call, text
again) may have given away what came before the rest; the scan still sees all of it, so the phrase is never completed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from demur.errors import SizeLimitError
from demur.gateway.guard.values import ScanText, StrandAccount, StrandText

if TYPE_CHECKING:
    from demur.gateway.guard.events import EventText, Piece
    from demur.gateway.guard.values import GuardLimits
    from demur.model.exchange import Channel

__all__ = ["Extent", "Ledger"]

_MAX_NUMBER_DIGITS = 18
_Key = tuple[int, "Channel", str]


@dataclass(slots=True)
class _ChoiceCount:
    """All strands of one choice: what came, what was scanned, and whether the choice has ended."""

    received: int = 0
    scanned: int = 0
    ended: bool = False


@dataclass(slots=True, eq=False)
class _StrandCount:
    key: _Key
    choice: _ChoiceCount
    text: str = ""
    pieces: list[str] = field(default_factory=list)
    received: int = 0
    scanned: int = 0
    released: int = 0
    grown_at: int = 0
    """What its choice had received when this strand last grew."""

    def whole(self) -> str:
        """Return the text so far; pieces are joined when someone asks, not as they come."""
        if self.pieces:
            self.text = "".join([self.text, *self.pieces])
            self.pieces.clear()
        return self.text

    def starts_with(self, text: str) -> bool:
        """Return whether the text so far begins like this; short questions join nothing."""
        return (self.text if len(self.text) >= len(text) else self.whole()).startswith(text)


Extent = tuple[_StrandCount, int, int]
"""Where an event's text ends in its strand, and how many characters of the strand it brings."""


class Ledger:
    """Pieces in by `add`, scans out by `ask`; `settle` says that the last scan was made."""

    def __init__(self, window: int, limits: GuardLimits) -> None:
        self._window = window
        self._limits = limits
        self._strands: dict[_Key, _StrandCount] = {}
        self._choices: dict[int, _ChoiceCount] = {}
        self._alone: dict[tuple[int, str], Extent] = {}
        self._asked: list[tuple[_StrandCount, int]] = []
        self._asked_choices: list[tuple[_ChoiceCount, int]] = []
        self.received = 0
        self.scanned = 0
        self.released = 0

    def add(self, said: EventText) -> list[Extent]:
        """Count what an event says; return where each of its pieces ends."""
        extents = [self._grow(piece) if piece.grows else self._add_whole(piece) for piece in said.pieces]
        for index in said.closes:
            self._choice(index).ended = True
        if self.received > self._limits.text_chars:
            raise SizeLimitError(f"the answer is longer than {self._limits.text_chars} characters")
        return extents

    def end_all(self) -> None:
        """Take every choice for ended: nothing more will come."""
        for choice in self._choices.values():
            choice.ended = True

    def ask(self, *, final: bool) -> ScanText:
        """Return all text so far, to be scanned."""
        self._asked = [(strand, strand.received) for strand in self._strands.values()]
        self._asked_choices = [(choice, choice.received) for choice in self._choices.values()]
        ordered = sorted(self._strands.values(), key=_order)
        return ScanText(tuple(_strand_text(strand) for strand in ordered), final=final)

    def settle(self) -> None:
        """Count as scanned what was last asked for."""
        for strand, end in self._asked:
            self.scanned += end - strand.scanned
            strand.scanned = end
        for choice, end in self._asked_choices:
            choice.scanned = end

    def is_free(self, extents: list[Extent]) -> bool:
        """Return whether an event with these pieces may go on."""
        for strand, end, _ in extents:
            # Free a window behind what was scanned of its strand, or once the strand has come to rest: its choice has ended,
            # or a window of the choice's other strands was scanned since it last grew.
            if strand.scanned - end >= self._window:
                continue
            rests = strand.choice.ended or strand.choice.scanned - strand.grown_at >= self._window
            if strand.scanned < strand.received or not rests:
                return False
        return True

    def release(self, extents: list[Extent]) -> None:
        """Count an event as sent."""
        for strand, _, size in extents:
            strand.released += size
            self.released += size

    def accounts(self) -> tuple[StrandAccount, ...]:
        """Return what became of every strand."""
        found = []
        for strand in sorted(self._strands.values(), key=_order):
            text = strand.whole()
            # Half a surrogate pair has three bytes here: a client may still get it, so it is not lost in the count.
            sizes = [len(each.encode("utf-8", errors="surrogatepass")) for each in (text, text[: strand.scanned])]
            counts = (strand.received, strand.scanned, strand.released)
            found.append(StrandAccount(*strand.key, *counts, received_bytes=sizes[0], scanned_bytes=sizes[1]))
        return tuple(found)

    def _grow(self, piece: Piece) -> Extent:
        key = (piece.choice, piece.channel, piece.place)
        strand = self._strands.get(key)
        if strand is None:
            if len(self._strands) >= self._limits.strands:
                raise SizeLimitError(f"the answer has more than {self._limits.strands} strands")
            strand = self._strands[key] = _StrandCount(key, self._choice(piece.choice))
        strand.pieces.append(piece.text)
        size = len(piece.text)
        choice = strand.choice
        self.received += size
        strand.received += size
        choice.received += size
        choice.ended = False
        strand.grown_at = choice.received
        return strand, strand.received, size

    def _add_whole(self, piece: Piece) -> Extent:
        """Return where a whole text ends: in the strand that it repeats, else in one for texts by themselves."""
        name = (piece.choice, piece.text)
        known = self._alone.get(name)
        if known is not None:
            return known
        size = len(piece.text)
        for key, strand in self._strands.items():
            if key[0] == piece.choice and strand.received >= size and strand.starts_with(piece.text):
                return strand, size, 0
        ended = self._choice(piece.choice).ended
        if (piece.choice, piece.channel, piece.place) in self._strands:
            # On a line of its own, so that it makes no phrase with another text; the line end counts too.
            piece = type(piece)(piece.choice, piece.channel, piece.place, f"\n{piece.text}")
        strand, end, size = self._grow(piece)
        # A text that repeats or is by itself does not open a choice again that has ended.
        strand.choice.ended = ended
        self._alone[name] = strand, end, 0
        return strand, end, size

    def _choice(self, index: int) -> _ChoiceCount:
        choice = self._choices.get(index)
        if choice is None:
            if len(self._choices) >= self._limits.choices:
                raise SizeLimitError(f"the answer has more than {self._limits.choices} choices")
            choice = self._choices[index] = _ChoiceCount()
        return choice


def _strand_text(strand: _StrandCount) -> StrandText:
    """Return a strand for a scan; halves of a surrogate pair that came in two pieces are one character, as in a browser."""
    text, scanned = strand.whole(), strand.scanned
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        scanned = len(_in_pairs(text[:scanned]).decode("utf-16-le", errors="ignore"))
        text = _in_pairs(text).decode("utf-16-le", errors="replace")
    return StrandText(*strand.key, text, scanned)


def _in_pairs(text: str) -> bytes:
    return text.encode("utf-16-le", errors="surrogatepass")


def _order(strand: _StrandCount) -> tuple[int, str, bool, tuple[int, ...], str]:
    """Return where a strand stands among its choice's: numbered places by their numbers, named ones after them."""
    choice, channel, place = strand.key
    numbers = place.split(".")
    known = place == "" or _is_number(numbers[0])
    return choice, channel, not known, tuple(int(n) for n in numbers if _is_number(n)), place


def _is_number(word: str) -> bool:
    # Digits beyond any count are a name: Python refuses to read thousands of them as a number.
    return word.isdecimal() and len(word) <= _MAX_NUMBER_DIGITS
