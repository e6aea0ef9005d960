"""A new API key for a tenant, new or not: python -m apps.webhooks.new_key NAME."""

import argparse
import asyncio
import sys

from pydantic import TypeAdapter, ValidationError

from apps.serving import prepare
from apps.webhooks.keys import MIGRATIONS, Tenant, new_keys
from sendonce import Admin, SendonceError
from sendonce.contrib.sqlalchemy import async_engine


def main() -> int:
    """Print the key; 1 with a sentence when there can be none."""
    parser = argparse.ArgumentParser(prog="python -m apps.webhooks.new_key", description=__doc__)
    parser.add_argument("tenant")
    parser.add_argument("--database", default="sqlite:///webhooks.db", metavar="URL")
    args = parser.parse_args()
    try:
        tenant = TypeAdapter(Tenant).validate_python(args.tenant)
        asyncio.run(_look(args.database))
        prepare(args.database, MIGRATIONS)
        print(asyncio.run(_make(args.database, tenant)))
    except ValidationError:
        print("new_key: a tenant's name is one line of up to 100 characters, and not empty", file=sys.stderr)
        return 1
    except SendonceError as error:
        print(f"new_key: {error}", file=sys.stderr)
        return 1
    return 0


async def _look(url: str) -> None:
    """A name that was mistyped must not make a new database."""
    async with Admin.aopen(url, operator="new_key"):
        pass


async def _make(url: str, tenant: str) -> str:
    engine = async_engine(url)
    try:
        return (await new_keys(engine, [tenant]))[tenant]
    finally:
        await engine.dispose()


if __name__ == "__main__":
    sys.exit(main())
