"""What was frozen is what it says, and no migration that has landed was changed since."""

import zipfile
from pathlib import Path

import pytest

from sendonce.store.migrations import available
from tests.upgrade.freeze import RELEASES, frozen, release, schema_of
from tests.upgrade.releases import NEWEST, TREE, before

FROZEN = sorted(RELEASES.glob("schema-*.zip"))


@pytest.mark.parametrize("number", range(2, NEWEST + 1))
def test_migration_has_the_program_before_it(number: int, tmp_path: Path) -> None:
    program = before(number, tmp_path)

    assert (program.folder / "sendonce" / "__init__.py").is_file()


def test_migration_without_one_is_told_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"migration 9001 has no program of schema 9000.* run: python -m"):
        before(9001, tmp_path)


def test_databases_have_the_same_migrations() -> None:
    postgres, sqlite = (available(f"sendonce.store.{each}") for each in ("postgres", "sqlite"))

    assert [each.name for each in postgres] == [each.name for each in sqlite]
    for one, other in zip(postgres, sqlite, strict=True):
        assert one.backfill.keys() - {"hold"} == other.backfill.keys()


@pytest.mark.parametrize("path", FROZEN, ids=lambda path: path.stem)
def test_archive_is_named_after_its_schema_and_made_the_same_again(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}

    assert path == release(schema_of(files))
    assert frozen(dict(reversed(files.items()))) == path.read_bytes()


@pytest.mark.parametrize("path", FROZEN, ids=lambda path: path.stem)
def test_migration_that_has_landed_is_not_changed(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        landed = {Path(name).parts[2:]: archive.read(name) for name in archive.namelist() if "/migrations/" in name}

    assert landed
    for name, content in landed.items():
        assert (TREE / "sendonce" / "store").joinpath(*name).read_bytes() == content, (
            f"{name[-1]} has landed; put the change into a new migration"
        )
