"""Stops: all sends of a scope are held back until it is lifted."""

from sendonce.errors import NotFound
from sendonce.sql.steps import Steps, rows
from sendonce.store.operations_log import log, said
from sendonce.store.records import Acted


def stop(scope: str, value: str, *, operator: str, reason: str | None) -> Steps[Acted]:
    """Hold back all sends of a scope from now on."""
    yield from rows("stop", scope=scope, value=value, operator=said(operator), reason=said(reason))
    return (yield from log("stop", operator, reason, (), subject=_named(scope, value)))


def resume(scope: str, value: str, *, operator: str) -> Steps[Acted]:
    """Lift a stop and make what it parked due again."""
    if not (yield from rows("lift_stop", scope=scope, value=value)):
        raise NotFound(f"nothing is stopped for {_named(scope, value)}")
    yield from rows("unpark", parked_on=f"stop:{scope}:{value}")
    return (yield from log("resume", operator, None, (), subject=_named(scope, value)))


def _named(scope: str, value: str) -> str:
    return f"{scope} {value}".strip()
