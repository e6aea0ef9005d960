"""A sender without manners of its own: one request, and what came of it."""

import json
from http.client import HTTPConnection, HTTPException
from typing import Any, NamedTuple
from urllib.parse import urlsplit

CUT, REFUSED, TIMED_OUT = "cut", "refused", "timed out"


class Answered(NamedTuple):
    """Status and JSON of an answer, and its headers in lower case."""

    status: int
    document: Any
    headers: dict[str, str]


def ask(
    method: str, url: str, body: bytes = b"{}", *, timeout: float = 50, headers: dict[str, str] | None = None
) -> Answered | str:
    """The answer, or how it failed."""
    parts = urlsplit(url)
    connection = HTTPConnection(parts.netloc, timeout=timeout)
    try:
        connection.request(method, parts.path or "/", body, headers or {})
        response = connection.getresponse()
        content = response.read()
        return Answered(response.status, json.loads(content), {n.lower(): v for n, v in response.getheaders()})
    except ConnectionRefusedError:
        return REFUSED
    except TimeoutError:
        return TIMED_OUT
    except (OSError, HTTPException):
        return CUT
    finally:
        connection.close()


def post(url: str, token: str = "", body: bytes = b"{}", *, timeout: float = 50) -> Answered | str:
    headers = {"Idempotency-Key": token, "Sendonce-Attempt": "1"} if token else {}
    return ask("POST", url, body, timeout=timeout, headers=headers)


def statuses(url: str, *tokens: str) -> list[int | str]:
    """What each of these came to, one after the other."""
    answers = [post(url, token) for token in tokens]
    return [answer if isinstance(answer, str) else answer.status for answer in answers]


def found(look_up: str, token: str, *, timeout: float = 50) -> Answered:
    answer = ask("GET", look_up.format(token=token), b"", timeout=timeout)
    assert isinstance(answer, Answered), answer
    return answer
