"""A new API key for a tenant, new or not: python -m apps.webhooks.new_key NAME."""

import argparse
import asyncio

from apps.serving import prepare
from apps.webhooks.keys import MIGRATIONS, new_keys
from sendonce.contrib.sqlalchemy import async_engine


async def _make(url: str, tenant: str) -> str:
    engine = async_engine(url)
    try:
        return (await new_keys(engine, [tenant]))[tenant]
    finally:
        await engine.dispose()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m apps.webhooks.new_key", description=__doc__)
    parser.add_argument("tenant")
    parser.add_argument("--database", default="sqlite:///webhooks.db", metavar="URL")
    args = parser.parse_args()
    prepare(args.database, MIGRATIONS)
    print(asyncio.run(_make(args.database, args.tenant)))
