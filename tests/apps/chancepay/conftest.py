"""Both services without a listener, for tests of what each does by itself: orders go nowhere."""

from collections.abc import Iterator

import pytest

from tests.apps.chancepay.services import ChancePay, chancepay


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def services(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChancePay]:
    server = request.getfixturevalue("postgres_server") if request.param == "postgres" else None
    with chancepay(server, tmp_path_factory.mktemp("chancepay")) as made:
        made.start("--broker", "null:payments")
        yield made
