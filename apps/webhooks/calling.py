"""Who is calling: the tenant whose API key it is, and the Admin that sees that tenant's rows only."""

from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

from fastapi import Depends, HTTPException, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from sqlalchemy.ext.asyncio import AsyncEngine

from apps.webhooks.keys import tenant_of
from sendonce import TenantAdmin
from sendonce.contrib.fastapi import ANSWERS, Problem

_SCHEME = HTTPBearer(auto_error=False, description="an API key")
WITH_KEY: dict[int | str, dict[str, Any]] = {
    **ANSWERS,
    401: {"model": Problem, "description": "No API key, or one that is not known"},
}


@dataclass(frozen=True, slots=True)
class Caller:
    tenant: str
    admin: TenantAdmin
    engine: AsyncEngine


async def _caller(request: Request, given: Annotated[HTTPAuthorizationCredentials | None, Depends(_SCHEME)]) -> Caller:
    engine: AsyncEngine = request.app.state.engine
    tenant = None if given is None else await tenant_of(engine, given.credentials)
    if tenant is None:
        raise HTTPException(401, "send your API key as: authorization: Bearer key_…", {"www-authenticate": "Bearer"})
    return Caller(tenant, request.app.state.admin.for_tenant(tenant).as_operator(f"{tenant} by API"), engine)


Calling: TypeAlias = Annotated[Caller, Depends(_caller)]
