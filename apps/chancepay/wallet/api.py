"""The wallet's service: its database, the worker that takes reports to the other side, and its routes."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from fastapi import FastAPI

import sendonce
from apps.chancepay.guards import check_tables, guard
from apps.chancepay.keys import WITH_KEY
from apps.chancepay.peer import Peer
from apps.chancepay.settings import Settings
from apps.chancepay.wallet import internal, public
from apps.chancepay.wallet.reports import channels_to
from sendonce.contrib.fastapi import answer_errors
from sendonce.contrib.sqlalchemy import async_engine

PLACE = Path(__file__).parent
MIGRATIONS = PLACE / "migrations"


def build(settings: Settings) -> FastAPI:
    """The service on a database that has its tables. Orders are taken by another process: the listener."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            engine = async_engine(settings.database)
            stack.push_async_callback(engine.dispose)
            await check_tables(engine, MIGRATIONS)
            app.state.engine = engine
            peer = await stack.enter_async_context(Peer(settings.needed_peer()))
            worker = sendonce.aembedded_worker(settings.database, config=settings.config, channels=channels_to(peer))
            await stack.enter_async_context(worker)
            yield

    app = FastAPI(title="ChancePay wallet", version=sendonce.__version__, lifespan=lifespan, responses=WITH_KEY)
    answer_errors(app)
    guard(app, MIGRATIONS)
    app.include_router(public.router)
    app.include_router(internal.router)
    return app
