"""Every exception that Demur raises on purpose.

    DemurError
    ├── CommandError          a command that was started for the user did not do its work
    ├── InputError            what was given cannot be read
    │   ├── EmptyInputError       there is nothing in it
    │   ├── EncodingError         it is not UTF-8
    │   ├── JsonError             it is not JSON
    │   ├── ShapeError            it is JSON, but no shape we know, or a field of the wrong kind
    │   ├── SizeLimitError        it is larger than the limit in force
    │   └── UnreadableRowsError   some rows of a run cannot be read; it holds the error of each
    ├── PackError             a phrase pack cannot be read or is not sound
    ├── PolicyError           a policy cannot be read or is not sound
    ├── RejectedError         an exchange that another proxy must not pass on, with the status to answer
    ├── StoreError            a store of records cannot be read or written
    ├── UpstreamError         the provider could not be asked, or did not answer as it should
    │   ├── UpstreamConnectError  no connection, or a certificate that is not trusted
    │   ├── UpstreamCutError      the connection ended before the response did
    │   ├── UpstreamProtocolError the response is not valid HTTP
    │   └── UpstreamTimeoutError  it took too long; `which` says what
    └── UsageError            the options or arguments contradict each other

A message is one line, lower case, without a full stop, with the user's own words in backticks; facts are attributes, so
that no caller parses a message; `hint` says what to do instead.
"""

from __future__ import annotations

__all__ = [
    "CommandError",
    "DemurError",
    "EmptyInputError",
    "EncodingError",
    "InputError",
    "JsonError",
    "PackError",
    "PolicyError",
    "RejectedError",
    "ShapeError",
    "SizeLimitError",
    "StoreError",
    "UnreadableRowsError",
    "UpstreamConnectError",
    "UpstreamCutError",
    "UpstreamError",
    "UpstreamProtocolError",
    "UpstreamTimeoutError",
    "UsageError",
]


class DemurError(Exception):
    """Anything that went wrong and that Demur can name."""

    def __init__(self, what: str, *, hint: str | None = None) -> None:
        """Keep what happened and what to do about it."""
        super().__init__(what)
        self.what = what
        self.hint = hint

    def __str__(self) -> str:
        """One line: what happened, then the hint."""
        return _one_line(f"{self.what}; {self.hint}" if self.hint else self.what)


def _one_line(text: str) -> str:
    """Return the text with its unprintable characters escaped."""
    # What is quoted may be a user's own: it must not start a line of a log, nor steer a terminal by escape sequences.
    return text if text.isprintable() else "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


class CommandError(DemurError):
    """A command that was started for the user did not do its work; `exit_code` is None where it has not ended."""

    def __init__(self, what: str, *, exit_code: int | None = None, hint: str | None = None) -> None:
        """Keep how it ended."""
        super().__init__(what, hint=hint)
        self.exit_code = exit_code


class InputError(DemurError):
    """What was given cannot be read; `source` and `line` say where it stands."""

    def __init__(
        self, what: str, *, source: str | None = None, line: int | None = None, hint: str | None = None
    ) -> None:
        """Keep the place as well as the fact."""
        super().__init__(what, hint=hint)
        self.source = source
        self.line = line

    def at(self, source: str, line: int | None = None) -> InputError:
        """Return the same error with its place filled in."""
        placed = type(self)(self.what, hint=self.hint)
        placed.source, placed.line = source, line
        placed.__cause__ = self.__cause__
        return placed

    def __str__(self) -> str:
        """One line: the place, what happened there, the hint."""
        place = f"`{_one_line(self.source)}`" if self.source else ""
        if self.line is not None:
            place += f" line {self.line}" if place else f"line {self.line}"
        tail = super().__str__()
        return f"{place}: {tail}" if place else tail


class EmptyInputError(InputError):
    """There is nothing to read: an empty file, text or run is never a pass."""


class EncodingError(InputError):
    """The bytes are not UTF-8."""


class JsonError(InputError):
    """The text is not JSON, or a line of it is not."""


class ShapeError(InputError):
    """The JSON is of no shape that we know, or one of its fields is of the wrong kind."""


class SizeLimitError(InputError):
    """The input is larger than the limit in force."""


class UnreadableRowsError(InputError):
    """Some rows of a run cannot be read: `errors` are the first of them, `total` is how many there are."""

    def __init__(self, errors: tuple[InputError, ...], total: int, *, hint: str | None = None) -> None:
        """Keep the errors."""
        rows = "a row" if total == 1 else f"{total:,} rows"
        super().__init__(f"{rows} cannot be read, the first: {errors[0]}", hint=hint)
        self.errors = errors
        self.total = total


class PackError(DemurError):
    """A phrase pack cannot be read or is not sound."""


class PolicyError(DemurError):
    """A policy cannot be read or is not sound; `source`, `line` and `column` say where in the user's own text."""

    def __init__(
        self,
        what: str,
        *,
        source: str | None = None,
        line: int | None = None,
        column: int | None = None,
        hint: str | None = None,
    ) -> None:
        """Keep the place as well as the fact."""
        super().__init__(what, hint=hint)
        self.source = source
        self.line = line
        self.column = column

    def __str__(self) -> str:
        """One line: the place, what is wrong there, the hint."""
        spots = (("line", self.line), ("column", self.column))
        place = " ".join([f"`{self.source}`"] * bool(self.source) + [f"{word} {n}" for word, n in spots if n])
        tail = super().__str__()
        return f"{place}: {tail}" if place else tail


class RejectedError(DemurError):
    """An exchange that another proxy must not pass on; `status_code`, `type` and `message` are what its client gets."""

    def __init__(self, what: str, *, status_code: int, kind: str) -> None:
        """Keep the status to answer with, and the kind of rejection."""
        super().__init__(what)
        # LiteLLM reads these names off whatever a callback raises.
        self.status_code, self.type, self.param, self.message = status_code, kind, None, what


class UpstreamError(DemurError):
    """The provider could not be asked, or did not answer as it should; `fault` is the word for it in figures."""

    fault = "upstream"


class UpstreamConnectError(UpstreamError):
    """Nobody answers at the address, or not with a certificate that we trust."""

    fault = "connect"


class UpstreamCutError(UpstreamError):
    """The connection ended before the answer did; `received` says whether any of the answer had come."""

    fault = "cut"

    def __init__(self, what: str, *, received: bool, hint: str | None = None) -> None:
        """Keep how far it came."""
        super().__init__(what, hint=hint)
        self.received = received


class UpstreamProtocolError(UpstreamError):
    """What came is no HTTP that we accept."""

    fault = "protocol"


class UpstreamTimeoutError(UpstreamError):
    """It took too long; `which` of the timeouts ran out: `connect`, `read` or `total`."""

    fault = "timeout"

    def __init__(self, what: str, *, which: str, hint: str | None = None) -> None:
        """Keep which it was."""
        super().__init__(what, hint=hint)
        self.which = which


class StoreError(DemurError):
    """A store of records cannot be read or written: it is full, busy, damaged or not ours."""


class UsageError(DemurError):
    """The call contradicts itself."""
