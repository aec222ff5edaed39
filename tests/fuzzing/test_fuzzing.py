"""The promises about any input, for a little of it."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from fuzzing.answers import BrokenPromiseError, patched, same
from fuzzing.reviews import SEEDS, Review, changed, reviews
from fuzzing.rounds import Rounds


async def test_a_round(tmp_path: Path) -> None:
    """Server, `review` and `check` agree on random reviews, and random documents get an answer or a clear error."""
    async with Rounds(tmp_path, seed=16, count=20, documents=3) as rounds:
        await rounds.run()
        assert rounds.summary().startswith("1 rounds: ")


def test_the_same_seed() -> None:
    """The same seed gives the same reviews, and another one others."""
    first, second, other = (list(reviews(Random(seed), 50)) for seed in (7, 7, 8))  # noqa: S311
    assert first == second != other


def test_seeds_stay_as_they_are() -> None:
    """A change is made to a copy."""
    before = repr(SEEDS)
    for seed in range(50):
        changed(Random(seed), SEEDS[seed % len(SEEDS)], 3)  # noqa: S311
    assert repr(SEEDS) == before


@pytest.mark.parametrize(
    "look",
    [
        lambda item: same(item, "validate", 500, b"", b""),
        lambda item: same(item, "validate", 200, b"yes", b"no"),
        lambda item: patched(item, b'{"response": {"patch": "W10="}}'),
        lambda item: patched(
            item, b'{"response": {"patch": "W3sib3AiOiJyZW1vdmUiLCJwYXRoIjoiL3gifV0=", "patchType": "JSONPatch"}}'
        ),
    ],
    ids=["HTTP 500", "two answers", "no patchType", "a patch of what is not there"],
)
def test_a_broken_promise(look: Callable[[Review], object]) -> None:
    """A promise that does not hold is raised with the review."""
    item = Review(b'{"request": {"object": {}}}', None)
    with pytest.raises(BrokenPromiseError) as broken:
        look(item)
    assert str(broken.value).endswith(repr(item.body))
