"""A judge's earlier replies on disk, under the hash of the question.

A file holds the reply and its tokens, never the question.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryFile

import msgspec

from demur.errors import UsageError

__all__ = ["CachedReply", "JudgeCache", "open_judge_cache"]


class CachedReply(msgspec.Struct, frozen=True):
    """A judge's reply and the tokens that it took when it was asked."""

    text: str
    input_tokens: int = 0
    output_tokens: int = 0


class JudgeCache:
    """A folder of replies, two levels deep."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)

    def get(self, key: str) -> CachedReply | None:
        """Return the reply under a key, None where there is none that can be read."""
        try:
            return msgspec.json.decode(self._path(key).read_bytes(), type=CachedReply)
        # A broken file is no reply: the judge is asked again, and the file written anew.
        except (OSError, msgspec.DecodeError, UnicodeError):
            return None

    def put(self, key: str, reply: CachedReply) -> None:
        """Keep a reply."""
        path = self._path(key)
        # A reply that cannot be kept, as on a full disk, is still a reply.
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with NamedTemporaryFile(dir=path.parent, delete=False) as half:
                half.write(msgspec.json.encode(reply))
            # Renamed when complete, so that a half-written file never replaces a whole one.
            Path(half.name).replace(path)

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.json"


def open_judge_cache(folder: str | Path) -> JudgeCache:
    """Return the cache in a folder, created if needed; raise if nothing can be written to it."""
    # Tried before anything is asked: hours of replies that were paid for should not be lost at the end.
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as exc:
        what = (exc.strerror or "cannot be written").lower()
        raise UsageError(f"`{folder}` cannot hold replies: {what}", hint="set DEMUR_JUDGE_CACHE to a folder") from exc
    return JudgeCache(folder)
