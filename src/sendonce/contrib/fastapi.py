"""For applications on FastAPI: errors as JSON with one sentence, and texts that a database can store."""

from collections.abc import Sequence
from typing import Annotated, Any, TypeAlias

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import AfterValidator, BaseModel
from starlette.exceptions import HTTPException

from sendonce import (
    BadWebhook,
    CommitUnknown,
    KeyReused,
    NotAllowed,
    NotFound,
    PublishError,
    RerunRefused,
    SendonceError,
    StoreBusy,
    StoreError,
)

BUSY_SECONDS = "2"


class Problem(BaseModel):
    """What is wrong, and what to do about it."""

    error: str


# For FastAPI(responses=ANSWERS): what every route may answer besides what it is there for.
ANSWERS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "The request cannot be read"},
    404: {"model": Problem, "description": "There is no such thing"},
    409: {"model": Problem, "description": "The rules forbid it"},
    422: {"model": Problem, "description": "Something in the request is wrong"},
    503: {"model": Problem, "description": "The database cannot answer now; without Retry-After it may have been done"},
}

# Where the library's own sentence speaks of its arguments in Python, which callers over HTTP do not have.
_FOR_CALLERS: dict[type[Exception], str] = {
    KeyReused: "the key was used before, for different content; use a key of its own",
    RerunRefused: "the newest version is another: a lower one is not sent any more, a higher one only as a rerun",
}
# Where Pydantic's own sentence shows a pattern or speaks of its steps: the words for each kind of fault.
_WORDS = {
    "string_pattern_mismatch": "it is not written as expected",
    "string_too_short": "it is too short: at least {min_length}",
    "string_too_long": "it is too long: at most {max_length}",
    "too_short": "it is too short: at least {min_length}",
    "too_long": "it is too long: at most {max_length}",
}


def answer_errors(app: FastAPI) -> None:
    """Answer every mistake of a caller with 4xx and one sentence, and a database that cannot answer with 503.

    With Retry-After the same request may be made again; without it, it may have been done.
    """
    app.add_exception_handler(SendonceError, _ours)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)


def _storable(text: str) -> str:
    if any(character < " " and character not in "\n\r\t" for character in text) or "\x7f" in text:
        raise ValueError("it has control characters")
    return text


def _on_one_line(text: str) -> str:
    if not text.strip():
        raise ValueError("it is empty")
    if len(text.splitlines()) > 1 or text != text.strip():
        raise ValueError("it must be one line, without spaces around it")
    return _storable(text)


# Text of any length and lines, and one line that is not empty. No control characters: PostgreSQL stores no NUL.
Text: TypeAlias = Annotated[str, AfterValidator(_storable)]
Line: TypeAlias = Annotated[str, AfterValidator(_on_one_line)]


async def _ours(_: Request, error: Exception) -> JSONResponse:
    if isinstance(error, StoreBusy):
        return _problem(503, "the database cannot answer now; try again", {"retry-after": BUSY_SECONDS})
    if isinstance(error, CommitUnknown):
        return _problem(503, "the database was lost while this was written: it may be done; look before you try again")
    if isinstance(error, StoreError):
        return _problem(500, "the database refused it; see the log")
    return _problem(_status(error), _FOR_CALLERS.get(type(error)) or str(error))


def _status(error: Exception) -> int:
    if isinstance(error, NotFound):
        return 404
    if isinstance(error, BadWebhook):
        return 401
    if isinstance(error, NotAllowed | KeyReused | RerunRefused):
        return 409
    return 422 if isinstance(error, PublishError) else 400


async def _invalid(_: Request, error: Exception) -> JSONResponse:
    found = error.errors() if isinstance(error, RequestValidationError) else []
    return _problem(422, "; ".join(_sentence(each) for each in found[:5]) or "the request is not valid")


def _sentence(found: dict[str, Any]) -> str:
    """Where and what, never the value: it may be secret, or a person's."""
    kind = str(found.get("type"))
    if kind == "json_invalid":
        return "the request is not JSON"
    place: Sequence[object] = found.get("loc", ())
    named = ".".join(str(each) for each in place[1:]) or "the request"
    if kind in _WORDS:
        return f"{named}: {_WORDS[kind].format(**found.get('ctx', {}))}"
    said = str(found.get("msg", "is not valid")).removeprefix("Value error, ")
    return f"{named}: {said[:1].lower()}{said[1:]}"


async def _http(_: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, HTTPException):
        raise error
    return _problem(error.status_code, str(error.detail), dict(error.headers or {}))


def _problem(status: int, sentence: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse(Problem(error=sentence).model_dump(), status_code=status, headers=headers)
