"""The webhook service: its routes, its database, and the worker that runs inside it."""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from fastapi import FastAPI

import sendonce
from apps.webhooks import endpoints, events
from apps.webhooks.calling import WITH_KEY
from apps.webhooks.keys import DEMO_TENANTS, new_keys
from sendonce.contrib.fastapi import answer_errors
from sendonce.contrib.sqlalchemy import async_engine

SETTINGS = Path(__file__).parent / "sendonce.toml"


def build(url: str) -> FastAPI:
    """The service on this database, which has its tables."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        settings = os.environ.get("SENDONCE_CONFIG", SETTINGS)
        async with AsyncExitStack() as stack:
            app.state.engine = async_engine(url)
            stack.push_async_callback(app.state.engine.dispose)
            app.state.admin = await stack.enter_async_context(
                sendonce.Admin.aopen(url, operator="webhooks", config=settings)
            )
            await stack.enter_async_context(sendonce.aembedded_worker(url, config=settings))
            for tenant, key in (await new_keys(app.state.engine, DEMO_TENANTS, only_first=True)).items():
                print(f"the API key of {tenant}, shown this once: {key}", file=sys.stderr)
            yield

    app = FastAPI(title="Webhooks", version=sendonce.__version__, lifespan=lifespan, responses=WITH_KEY)
    answer_errors(app)
    app.include_router(endpoints.router)
    app.include_router(events.router)
    return app
