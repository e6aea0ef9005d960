from sendonce.domain.deliveries import ALLOWED, DeliveryState


def test_W5_moves_are_those_drawn_and_no_others() -> None:
    moves = {(old.value, new.value) for old, allowed in ALLOWED.items() for new in allowed}

    assert moves == {
        ("Pending", "InProgress"),
        ("Pending", "DeadLettered"),  # cancelled before the first attempt
        ("InProgress", "Completed"),
        ("InProgress", "PendingRetry"),
        ("InProgress", "DeadLettered"),
        ("PendingRetry", "InProgress"),
        ("PendingRetry", "DeadLettered"),
    }


def test_W5_there_are_five_states_and_two_are_final() -> None:
    assert [state.value for state in DeliveryState] == [
        "Pending",
        "InProgress",
        "PendingRetry",
        "Completed",
        "DeadLettered",
    ]
    assert {state for state in DeliveryState if state.is_final} == {
        DeliveryState.COMPLETED,
        DeliveryState.DEAD_LETTERED,
    }
    assert ALLOWED.keys() == set(DeliveryState)
