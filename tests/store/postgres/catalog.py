"""What a schema is made of, as the catalogs tell it: to compare two databases."""

from tests.store.databases import PostgresDatabase

_SCHEMA = "(select oid from pg_namespace where nspname = current_schema())"
_OURS = f"relnamespace = {_SCHEMA}"
QUESTIONS = {
    "tables": f"select relname, relkind, reloptions from pg_class where {_OURS}",
    "columns": (
        "select relname, attname, format_type(atttypid, atttypmod), attnotnull, attidentity,"
        " pg_get_expr(adbin, adrelid) from pg_attribute join pg_class on pg_class.oid = attrelid"
        f" left join pg_attrdef on adrelid = attrelid and adnum = attnum where {_OURS} and attnum > 0"
    ),
    "constraints": (
        "select conname, conrelid::regclass::text, pg_get_constraintdef(oid) from pg_constraint"
        f" where connamespace = {_SCHEMA}"
    ),
    "indexes": "select indexname, indexdef from pg_indexes where schemaname = current_schema()",
    "triggers": (
        "select pg_get_triggerdef(t.oid) from pg_trigger t join pg_class c on c.oid = tgrelid"
        f" where {_OURS} and not tgisinternal"
    ),
    "functions": f"select pg_get_functiondef(oid), proacl from pg_proc where pronamespace = {_SCHEMA}",
    "comments": f"select relname, description from pg_description join pg_class on oid = objoid where {_OURS}",
    "settings": (
        # A new database has no late programs to look for, and says so from birth; an old one once it has looked.
        "select name from sendonce_meta where name not like 'closed:%%'"
        " union all select value from sendonce_meta where name = 'schema_version'"
    ),
}


def catalog(database: PostgresDatabase) -> dict[str, list[str]]:
    """Every part of the schema in plain words."""
    return {topic: sorted(str(row) for row in database.execute(question)) for topic, question in QUESTIONS.items()}
