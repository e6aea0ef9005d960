"""Texts that end a line, a header, a request or a mail somewhere, in front of a header that must never arrive."""

MARK = "X-Evil: 1"
BREAKS = {
    "CR LF": "\r\n",
    "LF": "\n",
    "CR": "\r",
    "LF CR": "\n\r",
    "a folded line": "\r\n ",
    "a tab's fold": "\r\n\t",
    "the end of the head": "\r\n\r\n",
    "another request": "\r\n\r\nPOST /evil HTTP/1.1\r\nHost: evil\r\n",
    "the end of a mail": "\r\n.\r\nMAIL FROM:<evil@evil.example>\r\n",
    "a bare end of a mail": "\n.\nMAIL FROM:<evil@evil.example>\n",
    "a half-bare end of a mail": "\n.\r\nMAIL FROM:<evil@evil.example>\r\n",
    "a CR's end of a mail": "\r.\rMAIL FROM:<evil@evil.example>\r",
    "NUL": "\0",
    "a vertical tab": "\x0b",
    "a form feed": "\x0c",
    "a file separator": "\x1c",
    "a next line": "\x85",
    "a line separator": "\u2028",
    "a paragraph separator": "\u2029",
    "CR LF in a percent's clothes": "%0d%0a",
    "CR LF when cut to bytes": "\u560d\u560a",
    "a lone surrogate": "\udc0d\udc0a",
    "a tag's end": '"><',
}


def evil(place: str) -> str:
    """A value of ordinary beginning that goes on where it should end."""
    return f"a{BREAKS[place]}{MARK}"


def broken(head: bytes) -> list[bytes]:
    """What of a head would be more than its lines to some reader: bare ends, NULs, and the marked header."""
    lines = head.split(b"\r\n")
    return [line for line in lines if set(line) & set(b"\r\n\0") or line.lower().lstrip().startswith(b"x-evil")]
