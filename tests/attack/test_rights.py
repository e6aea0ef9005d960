"""Every right of every role on every table, view, sequence and function, as the server says: none more, none less.

`rights.txt` holds them, a line for each role and thing. A change of rights is a change of that file, seen in a review.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sendonce.store.postgres import grants
from tests.servers.postgres import Server
from tests.store.postgres.roles import Roles, granted_roles

EXPECTED = Path(__file__).with_name("rights.txt")
_WHO = "unnest(%(roles)s::text[], %(names)s::text[]) r(role, name)"
_RELATIONS = f"""
select r.role, c.relname, p.may, has_table_privilege(r.name, c.oid, p.may), coalesce(
         (select string_agg(a.attname, ' ' order by a.attnum) from pg_attribute a
           where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
             and case when p.may in ('select', 'insert', 'update', 'references')
                      then has_column_privilege(r.name, c.oid, a.attnum, p.may) end), '')
  from {_WHO}, unnest('{{select,insert,update,delete,truncate,references,trigger}}'::text[]) p(may), pg_class c
 where c.relkind in ('r', 'v', 'm', 'p') and c.relnamespace = current_schema()::regnamespace
"""
_SEQUENCES = f"""
select r.role, c.relname, p.may, has_sequence_privilege(r.name, c.oid, p.may), ''
  from {_WHO}, unnest('{{usage,select,update}}'::text[]) p(may), pg_class c
 where c.relkind = 'S' and c.relnamespace = current_schema()::regnamespace
"""
_FUNCTIONS = f"""
select r.role, f.proname || '()', 'execute', has_function_privilege(r.name, f.oid, 'execute'), ''
  from {_WHO}, pg_proc f
 where f.pronamespace = current_schema()::regnamespace and f.prorettype <> 'trigger'::regtype
"""
_PLACES = f"""
select r.role, 'the schema', p.may, has_schema_privilege(r.name, current_schema(), p.may), ''
  from {_WHO}, unnest('{{usage,create}}'::text[]) p(may)
"""


@pytest.fixture(scope="module")
def roles(postgres_server: Server, postgres_template: str) -> Iterator[Roles]:
    with granted_roles(postgres_server, postgres_template) as roles:
        yield roles


def rights_of(roles: Roles) -> set[str]:
    """A line for each role and thing: `app sendonce_events: insert(tenant type …) select(id …)`."""
    who = {"roles": list(grants.ROLES), "names": [roles.name(role) for role in grants.ROLES]}
    found: dict[str, list[str]] = {}
    with roles.database() as database, database.connection() as connection:
        for query in (_RELATIONS, _SEQUENCES, _FUNCTIONS, _PLACES):
            for role, thing, right, is_whole, columns in connection.execute(query, who).fetchall():
                line = found.setdefault(f"{role} {thing}", [])
                if is_whole or columns:
                    line.append(right if is_whole else f"{right}({columns})")
    return {f"{place}: {' '.join(sorted(rights))}".rstrip() for place, rights in found.items()}


def test_M10_role_has_exactly_the_rights_that_are_written_down(roles: Roles) -> None:
    expected = set(EXPECTED.read_text().splitlines())

    held = rights_of(roles)

    assert (sorted(held - expected), sorted(expected - held)) == ([], [])


def test_M10_no_role_may_empty_change_or_watch_a_table(roles: Roles) -> None:
    rights = [line.partition(": ")[2].split() for line in rights_of(roles)]

    assert not {"truncate", "references", "trigger", "create"} & {right for line in rights for right in line}


def test_M10_functions_with_their_owners_rights_look_where_they_were_told(roles: Roles) -> None:
    """A search path of the caller's would have them read tables of the caller's."""
    with roles.database() as database:
        settings = database.execute(
            "select proname, proconfig::text from pg_proc where prosecdef and proname like 'sendonce%%'"
        )

    assert [name for name, config in settings if "search_path" not in (config or "")] == []
    assert settings
