from __future__ import annotations

import random

import pytest

from policies.golang.sort import sorted_indices


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        pytest.param(
            [index % 2 for index in range(20)],
            [10, 18, 2, 16, 4, 0, 6, 14, 8, 12, 5, 11, 9, 13, 7, 15, 3, 17, 1, 19],
            id="two keys in turn",
        ),
        pytest.param([0] * 14, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13], id="all the same"),
        pytest.param(
            [(40 - index) // 2 for index in range(40)],
            [
                39,
                38,
                37,
                36,
                35,
                33,
                34,
                32,
                31,
                30,
                29,
                28,
                27,
                26,
                25,
                24,
                23,
                21,
                22,
                20,
                19,
                18,
                17,
                16,
                15,
                14,
                13,
                11,
                12,
                10,
                9,
                8,
                7,
                6,
                5,
                4,
                3,
                2,
                1,
                0,
            ],
            id="descending with pairs",
        ),
        pytest.param(
            [min(index, 60 - index) for index in range(60)],
            [
                0,
                59,
                1,
                2,
                58,
                3,
                57,
                4,
                56,
                55,
                5,
                54,
                6,
                53,
                7,
                8,
                52,
                51,
                9,
                10,
                50,
                11,
                49,
                12,
                48,
                13,
                47,
                14,
                46,
                45,
                15,
                16,
                44,
                17,
                43,
                18,
                42,
                41,
                19,
                20,
                40,
                39,
                21,
                38,
                22,
                37,
                23,
                24,
                36,
                35,
                25,
                26,
                34,
                27,
                33,
                28,
                32,
                29,
                31,
                30,
            ],
            id="an organ pipe",
        ),
        pytest.param(
            [index * 7 % 10 for index in range(64)],
            [
                20,
                50,
                30,
                0,
                40,
                60,
                10,
                3,
                33,
                23,
                43,
                53,
                63,
                13,
                56,
                46,
                16,
                36,
                26,
                6,
                59,
                9,
                19,
                49,
                39,
                29,
                22,
                52,
                42,
                62,
                2,
                12,
                32,
                15,
                25,
                35,
                5,
                55,
                45,
                48,
                38,
                58,
                28,
                8,
                18,
                21,
                11,
                1,
                61,
                31,
                41,
                51,
                54,
                14,
                24,
                44,
                34,
                4,
                27,
                37,
                57,
                17,
                7,
                47,
            ],
            id="a long saw",
        ),
    ],
)
def test_order_of_go(keys: list[int], expected: list[int]) -> None:
    """Equal keys end where Go's sort.Slice puts them, which is not where they began."""
    assert sorted_indices(keys) == expected


def test_sorts_anything() -> None:
    """Whatever the pattern and the length of the keys, they are sorted, and none is lost."""
    source = random.Random(7)  # noqa: S311 - a repeatable sequence
    for length in range(0, 400, 7):
        keys = [source.randrange(1 + length // source.choice((1, 2, 20))) for _ in range(length)]
        for pattern in (
            keys,
            sorted(keys),
            sorted(keys, reverse=True),
            sorted(keys[: length // 2]) + keys[length // 2 :],
        ):
            order = sorted_indices(pattern)
            assert sorted(order) == list(range(length))
            assert [pattern[index] for index in order] == sorted(pattern)


def test_many_bad_pivots_end_in_heapsort() -> None:
    """Keys that are arranged against the choice of pivots are sorted all the same, in a bounded time."""
    keys = [(index * 2654435761) % 4096 if index % 64 else 0 for index in range(4096)]
    assert [keys[index] for index in sorted_indices(keys)] == sorted(keys)


def test_without_an_order_nothing_is_lost() -> None:
    """NaN says "not less" to everything: each key is still there once."""
    keys = [float("nan") if index % 3 else float(index) for index in range(200)]
    assert sorted(sorted_indices(keys)) == list(range(200))
