"""What names a message at a consumer, and how much of it is kept. Nothing is defaulted: two messages without an id
would be taken for one."""

from typing import NamedTuple, TypeAlias
from uuid import UUID

from sendonce.errors import BadMessage

LONGEST_CONSUMER = 200
LONGEST_MESSAGE_ID = 500
LONGEST_RESULT = 2000

MessageId: TypeAlias = str | int | UUID


class Name(NamedTuple):
    """One message at one consumer: the key of its receipt."""

    consumer: str
    message_id: str


def name_of(consumer: str, message_id: MessageId) -> Name:
    """Check both parts and return the name; BadMessage says what is wrong."""
    return Name(check_consumer(consumer), render_message_id(message_id))


def check_consumer(consumer: str) -> str:
    """Check a consumer's name: each effect that is to happen once has its own."""
    return _text("a consumer's name", consumer, LONGEST_CONSUMER)


def render_message_id(message_id: MessageId) -> str:
    """The sender's id of the message as a text. The sender repeats it when it repeats the message."""
    if isinstance(message_id, UUID) or type(message_id) is int:
        return str(message_id)
    return _text("a message's id", message_id, LONGEST_MESSAGE_ID)


def check_result(result: str) -> str:
    """Check what a handler says about what it has done."""
    return _text("a result", result, LONGEST_RESULT)


def _text(what: str, value: object, longest: int) -> str:
    if not isinstance(value, str):
        raise BadMessage(f"{what} is a text of 1 to {longest} bytes, not {_kind(value)}")
    try:
        size = len(value) if value.isascii() else len(value.encode())
    except UnicodeEncodeError:
        raise BadMessage(f"{what} holds half a character (a lone surrogate), which no database can keep") from None
    if not 1 <= size <= longest or value.isspace():
        found = "blank" if value.isspace() else f"{size} bytes"
        raise BadMessage(f"{what} is a text of 1 to {longest} bytes, not {found}")
    if "\0" in value:
        raise BadMessage(f"{what} must not contain a NUL character")
    return value


def _kind(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
