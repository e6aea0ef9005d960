"""sendonce stop and resume: hold back sends on every host, and let them go on."""

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sendonce.admin.advice import Advice
from sendonce.admin.stops import SCOPES, Stopped, check_scope, spelled, stop_sentence
from sendonce.cli import advice
from sendonce.cli.context import configured
from sendonce.cli.options import OPERATOR, WHY, tenant
from sendonce.cli.parser import Parser
from sendonce.cli.verbs import Arguments, verb
from sendonce.store.records import Acted

if TYPE_CHECKING:
    from sendonce.admin.api import Admin


def _add_scope(parser: Parser) -> None:
    scope = parser.add_mutually_exclusive_group(required=True)
    scope.add_argument("--all", action="store_true", default=None, help="everything")
    scope.add_argument("--channel", metavar="NAME", help="a channel, like mailto or https")
    scope.add_argument("--destination", metavar="URI", help="one destination, or subscription:42")
    scope.add_argument("--tenant", type=tenant, metavar="NAME", help="one tenant")


def _scope_of(args: argparse.Namespace) -> tuple[str, str]:
    scope = next(each for each in SCOPES if getattr(args, each) is not None)
    return configured(lambda: check_scope(scope, str(getattr(args, scope))))


_SCOPE = Arguments(_add_scope, {"scope": _scope_of})


@verb(
    "stop",
    "hold back sends, on every host",
    _SCOPE,
    WHY,
    OPERATOR,
    about="Hold back all further sends, within a second and on every host, until they are resumed.",
)
async def stop(admin: "Admin", scope: tuple[str, str], reason: str | None) -> Stopped:
    return await admin.astop(*scope, reason=reason)


@stop.text
def _(stopped: Stopped) -> Iterator[str]:
    yield stop_sentence(stopped)
    yield advice.spelled(
        Advice(verb="resume", why="go on with", given={"scope": stopped.scope, "value": stopped.value})
    )


@verb(
    "resume",
    "let stopped sends go on",
    _SCOPE,
    OPERATOR,
    about="Lift a stop: what it held back is due again. Say the same scope that was stopped.",
)
async def resume(admin: "Admin", scope: tuple[str, str]) -> Acted:
    return await admin.aresume(*scope)


@resume.text
def _(acted: Acted, scope: tuple[str, str]) -> Iterator[str]:
    yield f"resumed: {spelled(*scope)} is sent again"


@resume.json
def _(acted: Acted, scope: tuple[str, str]) -> object:
    return {"scope": scope[0], "value": scope[1], "operation_id": acted.operation_id}
