"""What a browser sees of a page, without a browser."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "br", "wbr", "input", "link"}


class Tags(HTMLParser):
    """Checks that every tag is closed in its order, and keeps names and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep a tag, and that it waits for its end."""
        self.seen.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep a tag that is closed at once."""
        self.seen.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        """Keep what can be read."""
        self.text += data

    def handle_endtag(self, tag: str) -> None:
        """Refuse an end that does not fit."""
        assert self.open.pop() == tag


def parsed(page: str) -> Tags:
    """Return what a browser would see."""
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    return tags
