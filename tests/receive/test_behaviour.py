"""How behaviours are written, and which requests they meet."""

import pytest

from sendonce.devtools.receive.behaviour import ALWAYS, WELL, Fail, Rules, Wait, When, changed
from sendonce.errors import ConfigError


@pytest.mark.parametrize(
    ("name", "written", "read"),
    [
        ("fail", "503", Fail(503)),
        ("fail", 503, Fail(503)),
        ("fail", "429:0.2", Fail(429, When(share=0.2))),
        ("fail", "410:first:3", Fail(410, When(first=3))),
        ("mail_fail", "451:each:1", Fail(451, When(each=1))),
        ("slow", "2s", Wait(2.0)),
        ("late", "500ms:0.5", Wait(0.5, When(share=0.5))),
        ("look_up_slow", 3, Wait(3.0)),
        ("retry_after", "2m", 120.0),
        ("drop", True, ALWAYS),
        ("drop_after_accept", "0.5", When(share=0.5)),
        ("twice", "first:1", When(first=1)),
        ("deduplicate", True, True),
    ],
)
def test_behaviour_as_it_is_written(name: str, written: object, read: object) -> None:
    assert getattr(changed(WELL, {name: written}), name) == read


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("fail", "200"),
        ("fail", "600"),
        ("fail", "503:"),
        ("fail", "503:2"),
        ("fail", "503:last:3"),
        ("fail", "503:first:-1"),
        ("fail", True),
        ("slow", "soon"),
        ("slow", "2s:often"),
        ("drop", "1.1"),
        ("drop", "nan"),
        ("ids", "yes"),
        ("retry_after", "-1"),
    ],
)
def test_behaviour_that_makes_no_sense_is_refused_with_an_example(name: str, written: object) -> None:
    with pytest.raises(ConfigError, match=f"^{name} cannot be .*: say "):
        changed(WELL, {name: written})


def test_unknown_behaviour_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="there is no behaviour 'fial'; there are: slow, fail"):
        changed(WELL, {"fial": "503"})


def test_null_puts_one_back_and_leaves_the_others() -> None:
    both = changed(WELL, {"fail": "503", "ids": False})

    assert changed(both, {"fail": None}) == changed(WELL, {"ids": False})


def _met(when: str, *tokens: str) -> list[bool]:
    rule = Rules(changed(WELL, {"drop": when})).of("/")
    return [rule.meets("drop", rule.behaviour.drop, token) for token in tokens]


def test_share_is_exact_and_spread_out() -> None:
    assert _met("0.2", *"abcdefghij") == [False] * 4 + [True] + [False] * 4 + [True]
    assert _met("0", *"abc") == [False] * 3
    assert _met("1", *"abc") == [True] * 3


def test_behaviour_counts_the_first_and_the_first_of_each() -> None:
    assert _met("first:2", *"aabb") == [True, True, False, False]
    assert _met("each:1", *"aabab") == [True, False, True, False, False]


def test_longest_beginning_of_a_path_decides() -> None:
    rules = Rules()
    rules.change({"fail": "500"}, "/orders")
    rules.change({"fail": "503"}, "/orders/late")

    assert [rules.of(path).status("fail", "") for path in ("/", "/orders/1", "/orders/late/1")] == [None, 500, 503]


def test_count_begins_again_when_its_setting_is_changed() -> None:
    rules = Rules(changed(WELL, {"fail": "503:first:1"}))
    rule = rules.of("/")
    before = [rule.status("fail", "") for _ in range(2)]
    rules.change({"fail": "500:first:1"})

    assert [*before, *(rule.status("fail", "") for _ in range(2))] == [503, None, 500, None]
