"""Headers of a mail as ASCII lines: folded, and every script encoded (RFC 2047, RFC 2231)."""

import base64
import re
from collections.abc import Iterator
from urllib.parse import quote

from sendonce.domain.emails import Mailbox

LINE = 76
_WRAPPING = len("=?utf-8?b??=")
_FOLD = "\r\n "
_PLAIN_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+/^_`{|}~ -]*", re.ASCII)


def header(name: str, value: str) -> str:
    """One header of free text."""
    value = value.strip()
    # What looks encoded already would be shown as something else than what was written.
    if value.isascii() and "=?" not in value:
        return folded(f"{name}: {value}")
    return f"{name}:" + encoded(value, len(name) + 1)


def address(name: str, mailbox: Mailbox) -> str:
    """One header with an address; an address outside ASCII stays as it is, for servers that take it (SMTPUTF8)."""
    shown = mailbox.name
    if not shown:
        return f"{name}: {mailbox.address}"
    if not shown.isascii() or "=?" in shown:
        return f"{name}:{encoded(shown, len(name) + 1)}{_FOLD}<{mailbox.address}>"
    if not _PLAIN_NAME.fullmatch(shown):
        shown = '"' + re.sub(r'(["\\])', r"\\\1", shown) + '"'
    return folded(f"{name}: {shown} <{mailbox.address}>")


def attached(filename: str) -> str:
    """The header that names an attachment."""
    beginning = "Content-Disposition: attachment"
    if filename.isascii():
        escaped = re.sub(r'(["\\])', r"\\\1", filename)
        return f'{beginning};{_FOLD}filename="{escaped}"'
    parts = [f"filename*{number}*={part}" for number, part in enumerate(_percent(filename))]
    return ";".join([beginning, *(f"{_FOLD}{part}" for part in parts)])


def folded(line: str) -> str:
    """The line broken before spaces where it is too long; the spaces stay, so that it reads the same."""
    if len(line) <= LINE:
        return line
    lines = [""]
    for number, word in enumerate(re.findall(r" *[^ ]+", line)):
        # The name and the first word stay together: some readers take a first line without a value for an empty one.
        if number > 1 and len(lines[-1]) + len(word) > LINE:
            lines.append("")
        lines[-1] += word
    return "\r\n".join(lines)


def encoded(text: str, taken: int) -> str:
    """The text as encoded words on lines of their own, but for the first, on whose line so much is `taken`."""
    chunks = _chunks(text, (LINE - 1 - taken - _WRAPPING) // 4 * 3)
    return " " + _FOLD.join([f"=?utf-8?b?{base64.b64encode(each.encode()).decode('ascii')}?=" for each in chunks])


def _chunks(text: str, first: int) -> Iterator[str]:
    """Pieces of at most `first` and then 45 bytes, never within a character."""
    room, begin, size = first, 0, 0
    for place, character in enumerate(text):
        width = len(character.encode())
        if size + width > room:
            yield text[begin:place]
            room, begin, size = 45, place, 0
        size += width
    yield text[begin:]


def _percent(filename: str) -> Iterator[str]:
    piece = "utf-8''"
    for character in filename:
        written = quote(character, safe="")
        if len(piece) + len(written) > LINE - len(" filename*999*=;"):
            yield piece
            piece = ""
        piece += written
    yield piece
