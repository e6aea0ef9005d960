"""What stands before every route of a service: a cap on what is read, and the two questions of whoever runs it."""

from pathlib import Path
from typing import Any

from alembic.script import ScriptDirectory
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sendonce import SchemaMismatch, StoreBusy
from sendonce.contrib.fastapi import Problem
from sendonce.contrib.sqlalchemy import areading

LARGEST_BODY = 64 * 1024


class BodyLimit:
    """Reads at most so much of a request; 413 for one that has more, whatever it says of its length."""

    def __init__(self, app: ASGIApp, largest: int = LARGEST_BODY) -> None:
        self._app = app
        self._largest = largest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = b""
        message: Message = {"more_body": True}
        while message.get("more_body"):
            message = await receive()
            if message["type"] != "http.request":
                return
            body += message.get("body", b"")
            if len(body) > self._largest:
                problem = Problem(error=f"the request has more than {self._largest} bytes")
                headers = {"connection": "close"}
                await JSONResponse(problem.model_dump(), status_code=413, headers=headers)(scope, receive, send)
                return
        await self._app(scope, _again({**message, "body": body}, receive), send)


def _again(first: Message, rest: Receive) -> Receive:
    """Give what was read, and then what comes."""
    left = [first]

    async def receive() -> Message:
        return left.pop() if left else await rest()

    return receive


def guard(app: FastAPI, migrations: Path) -> None:
    """Cap requests. GET /livez: the process answers; /readyz: its database too, and has the tables of this version."""
    app.add_middleware(BodyLimit)
    unready: dict[int | str, dict[str, Any]] = {503: {"model": Problem, "description": "It cannot work now"}}

    @app.get("/livez", tags=["health"])
    async def livez() -> dict[str, str]:
        return {"status": "alive"}

    @app.get("/readyz", tags=["health"], responses=unready, response_model=None)
    async def readyz(request: Request) -> dict[str, str] | JSONResponse:
        try:
            await check_tables(request.app.state.engine, migrations)
        except (SchemaMismatch, StoreBusy) as error:
            return JSONResponse(Problem(error=str(error)).model_dump(), status_code=503)
        return {"status": "ready"}


async def check_tables(engine: AsyncEngine, migrations: Path) -> None:
    """SchemaMismatch when the database lacks our tables, or has those of another version."""
    name = migrations.parent.name
    wanted = ScriptDirectory(str(migrations)).get_current_head()
    try:
        async with areading(engine) as connection:
            found = await connection.scalar(text(f"select version_num from {name}_versions"))  # noqa: S608, our own
    except DBAPIError:
        found = None
    if found != wanted:
        raise SchemaMismatch(
            f"this database lacks the tables of {name}, or has those of another version;"
            f" run: python -m apps.chancepay.{name} migrate --database …"
        )
