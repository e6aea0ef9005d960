"""For applications on FastAPI: errors as JSON with one sentence, and texts that a database can store."""

from collections.abc import Sequence
from typing import Annotated, Any, TypeAlias

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import AfterValidator, BaseModel
from starlette.exceptions import HTTPException

from sendonce import KeyReused, NotAllowed, NotFound, PublishError, RerunRefused, SendonceError, StoreBusy, StoreError

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
    503: {"model": Problem, "description": "The database cannot answer now; try again"},
}


def answer_errors(app: FastAPI) -> None:
    """Answer every mistake of a caller with 4xx and one sentence, and a busy database with 503 and Retry-After."""
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
    if isinstance(error, StoreError):
        return _problem(500, "the database refused it; see the log")
    return _problem(_status(error), str(error))


def _status(error: Exception) -> int:
    if isinstance(error, NotFound):
        return 404
    if isinstance(error, NotAllowed | KeyReused | RerunRefused):
        return 409
    return 422 if isinstance(error, PublishError) else 400


async def _invalid(_: Request, error: Exception) -> JSONResponse:
    found = error.errors() if isinstance(error, RequestValidationError) else []
    return _problem(422, "; ".join(_sentence(each) for each in found[:5]) or "the request is not valid")


def _sentence(found: dict[str, Any]) -> str:
    """Where and what, never the value: it may be secret, or a person's."""
    if found.get("type") == "json_invalid":
        return "the request is not JSON"
    place: Sequence[object] = found.get("loc", ())
    named = ".".join(str(each) for each in place[1:]) or "the request"
    said = str(found.get("msg", "is not valid")).removeprefix("Value error, ")
    return f"{named}: {said[:1].lower()}{said[1:]}"


async def _http(_: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, HTTPException):
        raise error
    return _problem(error.status_code, str(error.detail), dict(error.headers or {}))


def _problem(status: int, sentence: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse(Problem(error=sentence).model_dump(), status_code=status, headers=headers)
