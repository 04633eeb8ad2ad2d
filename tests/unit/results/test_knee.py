"""The knee of a sweep: the least that is as good as any more."""

import pytest

from schedbench.results.knee import knee_told


@pytest.mark.parametrize(
    ("shares", "told"),
    [
        ([0.2, 0.87, 0.998, 0.996, 0.996], "knee: pool 300 is enough: 99.8 % in SLO"),
        ([0.2, 0.99, 0.5, 0.985, 0.99], "knee: pool 400 is enough: 98.5 % in SLO"),
        ([0.99, 0.99], "knee: pool 100, the least tried, is enough: 99.0 % in SLO"),
        ([0.2, 0.5, 0.9], "no knee yet: `in SLO` still grows at pool 300, the largest, to 90.0 %"),
        ([0.2, 0.9, 0.5], "no knee: `in SLO` falls at the largest pool; the best is 90.0 %"),
        ([0.0, 0.0], ""),
        ([0.9], ""),
        ([], ""),
    ],
)
def test_enough_is_the_least_after_which_nothing_is_a_hundredth_worse_than_the_best(
    shares: list[float], told: str
) -> None:
    points = [(100 * (place + 1), share) for place, share in enumerate(shares)]
    for order in (points, points[::-1]):
        found = knee_told("pool", order)
        assert found.startswith(told)
        assert bool(found) == bool(told)
