"""Hold back sends, and let them go on."""

from sendonce.admin.desk import Desk
from sendonce.admin.scopes import check_scope, spelled
from sendonce.admin.wording import dated
from sendonce.errors import NotFound


async def stop(desk: Desk, scope: str, value: str, *, operator: str, reason: str | None) -> str:
    """Hold back all sends of a scope until it is resumed; a sentence about what is true now."""
    scope, value = check_scope(scope, value)
    named = spelled(scope, value)
    status = await desk.status()
    for each in status.stops:
        if (each.scope, each.value) == (scope, value):
            return f"{named} was stopped already, {dated(each.created_at, status.now)} by {each.operator}"
    await desk.stop(scope, value, operator=operator, reason=reason)
    return f"stopped: nothing more is sent for {named}; go on with: sendonce resume {named}"


async def resume(desk: Desk, scope: str, value: str, *, operator: str) -> str:
    """Lift a stop; NotFound when there is none. What it held back is due again."""
    scope, value = check_scope(scope, value)
    named = spelled(scope, value)
    stops = (await desk.status()).stops
    if not any((each.scope, each.value) == (scope, value) for each in stops):
        others = ", ".join(spelled(each.scope, each.value) for each in stops)
        raise NotFound(f"{named} is not stopped; stopped are: {others or 'none'}")
    await desk.resume(scope, value, operator=operator)
    return f"resumed: {named} is sent again"
