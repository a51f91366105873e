"""One request to a model and its response, free of any provider's spelling, and the pieces in which a response streams.

Text that people read is in `TextPart`, what a model refuses with in `RefusalPart`, what it thinks in `ThinkingPart`; what
we do not read is kept as `OpaquePart`, its JSON as it came. A response that was cut off is a value (`complete=False`), not
an error.
"""

from __future__ import annotations

from base64 import b64decode
from dataclasses import dataclass
from enum import StrEnum

import msgspec

__all__ = [
    "NAMELESS_CALL",
    "Channel",
    "Choice",
    "Delta",
    "Exchange",
    "Finish",
    "Message",
    "OpaquePart",
    "Part",
    "ProviderError",
    "RefusalPart",
    "Request",
    "Response",
    "Shape",
    "Signal",
    "SignalKind",
    "TextPart",
    "ThinkingPart",
    "ToolCallPart",
    "ToolResultPart",
    "Usage",
    "kind_of_input",
]


class Shape(StrEnum):
    """The wire shapes that Demur reads and writes."""

    OPENAI_CHAT = "openai_chat"
    OPENAI_RESPONSES = "openai_responses"
    AZURE = "azure"
    ANTHROPIC = "anthropic"
    GEMINI = "gemini"
    BEDROCK = "bedrock"


class Finish(StrEnum):
    """Why an answer ended, in one vocabulary for all providers."""

    STOP = "stop"
    LENGTH = "length"
    TOOL = "tool"
    CONTENT_FILTER = "content_filter"
    REFUSAL = "refusal"
    ERROR = "error"
    UNKNOWN = "unknown"


# What is made anew in every exchange is a frozen struct: making one takes a fifth of the time of a frozen dataclass
# (`msgspec.structs.replace` changes one). `gc=False` where no field can hold a cycle.


class TextPart(msgspec.Struct, frozen=True, gc=False):
    """Text for the reader."""

    text: str


class RefusalPart(msgspec.Struct, frozen=True, gc=False):
    """The text of a provider's own refusal field or part."""

    text: str


class ThinkingPart(msgspec.Struct, frozen=True, gc=False):
    """Reasoning that the provider shows apart from the answer; never judged as the answer."""

    text: str


class ToolCallPart(msgspec.Struct, frozen=True, gc=False):
    """A tool that the model wants called; `arguments` is JSON as the provider sent it."""

    id: str
    name: str
    # Text and not an object: a call that was cut off is no JSON.
    arguments: str


class ToolResultPart(msgspec.Struct, frozen=True, gc=False):
    """What a tool answered."""

    call_id: str
    text: str


class OpaquePart(msgspec.Struct, frozen=True, gc=False):
    """A part that we do not read (an image, a file, a kind from the future); `body` is its JSON.

    Where a reader expected text and found something else, or only that there was text, the kind is `unread.` and a word of
    `Cause`: `unread.not_text`, `unread.not_stored`.
    """

    kind: str
    body: bytes

    @property
    def is_output(self) -> bool:
        """Whether this kind is known to be what was asked for (a picture, a file, a hosted tool's work), though it has no text."""
        # OpenAI's codec keeps `tool_call.` for calls of another type than `function`, and `item.` for items beside messages.
        if self.kind.startswith("tool_call."):
            return self.kind != NAMELESS_CALL
        return self.kind.removeprefix("item.") in _OUTPUT_KINDS

    @property
    def is_silent(self) -> bool:
        """Whether this kind is known to say nothing to the reader: a note beside a text, or thoughts that are not shown."""
        return self.kind.startswith("text.") or self.kind in _SILENT_KINDS

    @property
    def words(self) -> str | None:
        """The words that a recording or a document carries beside its data, None where it has none."""
        if self.kind not in _WORDED_KINDS:
            return None
        try:
            body = msgspec.json.decode(self.body)
        except (msgspec.DecodeError, RecursionError):
            return None
        return _words_in(body)


# Kinds of content that providers document and that carry no words of the model: without text beside them they are an answer. A
# kind that is not here is one that we do not know, and a response of nothing else is `unread`.
_OUTPUT_KINDS = frozenset(
    (
        *(
            "image",
            "image_url",
            "output_image",
            "image_generation_call",
            "inlineData",
            "inline_data",
            "fileData",
            "file_data",
        ),
        "structured",  # an object that was asked for as such, whose words were read beside it
        *("audio", "output_audio", "input_audio", "video", "file", "document", "container_upload"),
        *("server_tool_use", "web_search_tool_result", "web_fetch_tool_result", "code_execution_tool_result"),
        *("bash_code_execution_tool_result", "text_editor_code_execution_tool_result", "tool_search_tool_result"),
        *("mcp_tool_use", "mcp_tool_result", "executableCode", "codeExecutionResult"),
        *(
            "web_search_call",
            "file_search_call",
            "code_interpreter_call",
            "computer_call",
            "local_shell_call",
            "shell_call",
        ),
        *("apply_patch_call", "mcp_call", "mcp_list_tools", "mcp_approval_request", "custom_tool_call"),
    )
)


_SILENT_KINDS = frozenset(
    {
        *("redacted_thinking", "reasoningContent", "cachePoint", "item.compaction", "compaction"),
        "item.message",  # OpenAI's codec announces a message by it
        # What the AI SDK marks steps with, and the sources of a text
        *("step-start", "step-finish", "source", "source-url", "source-document", "citation"),
    }
)
NAMELESS_CALL = "tool_call.nameless"
"""A call that does not say what it calls: nobody knows whether it does what was asked."""
_OURS = ("text.", "tool_call.", "item.", "unread.", "part.")
_OUR_KINDS = frozenset({"structured", "compaction", "cachePoint", "reasoningContent"})


def kind_of_input(name: str) -> str:
    """Return the kind of a part that calls itself so; a name that has a meaning here is kept apart from it."""
    # What an input calls itself never decides that it is silent, or an answer.
    return f"part.{name}" if name.startswith(_OURS) or name in _OUR_KINDS else name


_WORDED_KINDS = frozenset(
    {
        *("audio", "output_audio", "input_audio", "video", "file", "document", "structured"),
        *("inlineData", "inline_data", "searchResult", "image", "output_image"),
    }
)
_WORD_FIELDS = ("transcript", "text", "caption", "alt")
_HOLDERS = ("audio", "input_audio", "output_audio", "document", "file", "inlineData", "inline_data", "source")


def _words_in(body: object) -> str | None:
    """Return the first words in a media part: a transcript, a text, or plain text as data."""
    if not isinstance(body, dict):
        return None
    said = next((body[name] for name in _WORD_FIELDS if isinstance(body.get(name), str) and body[name]), None)
    if said is not None:
        return str(said)
    data = body.get("data")
    mime = body.get("mimeType") or body.get("mime_type") or body.get("media_type")
    if isinstance(data, str) and isinstance(mime, str) and mime.startswith("text/"):
        # Anthropic's text source holds the text itself, Gemini's inline data its base64.
        return data if body.get("type") == "text" else _decoded(data)
    if isinstance(data, str) and body.get("type") == "text":
        return data
    return next((words for name in _HOLDERS if (words := _words_in(body.get(name)))), None)


def _decoded(data: str) -> str:
    try:
        return b64decode(data, validate=True).decode("utf-8", "replace")
    except ValueError:
        return data


Part = TextPart | RefusalPart | ThinkingPart | ToolCallPart | ToolResultPart | OpaquePart


class Message(msgspec.Struct, frozen=True):
    """One turn of a conversation. `role` is `system`, `developer`, `user`, `assistant` or `tool`."""

    role: str
    parts: tuple[Part, ...]
    name: str | None = None

    @property
    def text(self) -> str:
        """The text parts, one a line."""
        return join_text(self.parts)


class Request(msgspec.Struct, frozen=True):
    """What was asked. A provider's separate system field is a leading `system` message here.

    `extra_inputs` are fields beside the conversation from which a provider may read words as well, such as `documents` or
    the values of a prompt template; each is kept unread under its name.
    """

    model: str
    messages: tuple[Message, ...]
    stream: bool = False
    n: int = 1
    extra_inputs: tuple[OpaquePart, ...] = ()

    @property
    def prompt(self) -> str:
        """The text of all user turns, one a line."""
        return "\n".join(m.text for m in self.messages if m.role == "user" and m.text)


class Usage(msgspec.Struct, frozen=True, gc=False):
    """Tokens, as the provider counted them."""

    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class ProviderError:
    """An error body that a provider answered with, in band or as an HTTP error."""

    message: str
    code: str | None = None
    kind: str | None = None
    inner_code: str | None = None


class SignalKind(StrEnum):
    """What kind of thing the provider itself said."""

    REFUSAL_FIELD = "refusal_field"
    """A refusal field or a part of type refusal is filled."""
    REFUSAL_STOP = "refusal_stop"
    """The stop reason says that the model refused."""
    FILTER_STOP = "filter_stop"
    """The stop reason says that a filter cut the answer off."""
    PROMPT_BLOCK = "prompt_block"
    """The prompt was blocked, so there is no answer."""
    FILTER_FLAG = "filter_flag"
    """A filter annotated the exchange; `blocked` says whether it also acted."""
    ERROR = "error"
    """The provider answered with an error that is no filter."""
    LABEL = "label"
    """Not the provider but a person says what happened: `value` is the label, `category` the outcome that it means."""


@dataclass(frozen=True, slots=True)
class Signal:
    """What the provider itself says: the JSON path, the value found there, and its details."""

    kind: SignalKind
    path: str
    value: str
    choice: int | None = None
    category: str | None = None
    severity: str | None = None
    detail: str | None = None
    blocked: bool = True


class Choice(msgspec.Struct, frozen=True):
    """One of the answers in a response."""

    index: int
    parts: tuple[Part, ...]
    # Both, since a provider's own word may say more than ours, and must be written back as it came.
    finish: Finish | None = None
    finish_raw: str | None = None

    @property
    def text(self) -> str:
        """The text parts, one a line; refusals, thoughts and tool calls are not among them."""
        return join_text(self.parts)

    @property
    def refusal(self) -> str:
        """What the provider's own refusal field says, one part per line."""
        return "\n".join([part.text for part in self.parts if isinstance(part, RefusalPart)])


class Response(msgspec.Struct, frozen=True):
    """What came back: choices, or an error, and all that the provider itself says about it."""

    model: str
    choices: tuple[Choice, ...] = ()
    signals: tuple[Signal, ...] = ()
    error: ProviderError | None = None
    usage: Usage | None = None
    id: str | None = None
    created_s: int | None = None
    status: int = 200
    complete: bool = True
    # Of the provider's backend, as OpenAI's chat format has it; nothing is judged by it.
    fingerprint: str | None = None


class Exchange(msgspec.Struct, frozen=True):
    """One request to a model and its response; logs often hold only one of the two."""

    shape: Shape | None
    response: Response | None
    request: Request | None = None
    id: str | None = None
    session: str | None = None


def join_text(parts: tuple[Part, ...]) -> str:
    """Return the text parts, one a line."""
    return "\n".join(part.text for part in parts if isinstance(part, TextPart))


class Channel(StrEnum):
    """Which of a choice's strands a piece belongs to."""

    TEXT = "text"
    REFUSAL = "refusal"
    THINKING = "thinking"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of an answer: which choice, which strand, and the characters that are new."""

    choice: int
    channel: Channel
    text: str
