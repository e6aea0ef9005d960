"""The requests' service: its database, its worker, and its two sides: for callers, and for the wallet's side."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from fastapi import FastAPI

import sendonce
from apps.chancepay.guards import check_tables, guard
from apps.chancepay.keys import WITH_KEY
from apps.chancepay.peer import Peer
from apps.chancepay.requests import internal, public
from apps.chancepay.requests.payments import Requests
from apps.chancepay.requests.wallets import KnownWallets
from apps.chancepay.settings import Settings
from sendonce.contrib.fastapi import answer_errors
from sendonce.contrib.sqlalchemy import async_engine

PLACE = Path(__file__).parent
MIGRATIONS = PLACE / "migrations"


def build(settings: Settings) -> FastAPI:
    """The service on a database that has its tables."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            engine = async_engine(settings.database)
            stack.push_async_callback(engine.dispose)
            await check_tables(engine, MIGRATIONS)
            app.state.engine = engine
            app.state.mode = settings.mode
            app.state.requests = Requests(engine, settings.broker)
            app.state.wallets = KnownWallets(await stack.enter_async_context(Peer(settings.needed_peer())))
            app.state.admin = await stack.enter_async_context(
                sendonce.Admin.aopen(settings.database, operator="chancepay", config=settings.config)
            )
            await stack.enter_async_context(sendonce.aembedded_worker(settings.database, config=settings.config))
            yield

    app = FastAPI(title="ChancePay requests", version=sendonce.__version__, lifespan=lifespan, responses=WITH_KEY)
    answer_errors(app)
    guard(app, MIGRATIONS)
    app.include_router(public.router)
    app.include_router(internal.router)
    return app
