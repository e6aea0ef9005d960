"""A run of the simulation, and all that it asked of its store."""

from tests.simulation.chaos import play
from tests.simulation.run import virtual_time
from tests.simulation.scene import SMALL, Profile, Scene
from tests.twins.calls import Call, Recorded
from tests.twins.follower import Tables, tables_of


def record(seed: int, profile: Profile = SMALL) -> tuple[list[Call], Tables]:
    """Every call in its order, and every table when all was over."""
    scene, calls = Scene(seed, profile), list[Call]()
    database = scene.database
    database.store = Recorded(database.store, database.connection, database.now, calls.append)
    with virtual_time(scene):
        scene.loop.run_until_complete(play(scene))
        scene.loop.bury()
    tables = tables_of(database.connection)
    database.connection.close()
    return calls, tables
