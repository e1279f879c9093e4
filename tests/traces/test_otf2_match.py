"""What belongs together in an archive, against the plainest way to find it."""

import random

import numpy as np

from gssr.traces.otf2.match import Regions, matched, paired, waits


def test_regions_are_those_of_a_stack_of_each_location() -> None:
    rng = random.Random(3)
    for _ in range(150):
        places, times, codes, expected = [], [], [], list[tuple[int, int, int, int]]()
        asked, open_after, alone, other = list[tuple[int, int]](), list[int](), 0, 0
        for place in range(rng.randrange(1, 4)):
            begin = len(codes)
            stack: list[int] = []
            found: list[tuple[int, int, int, int]] = []
            for now in sorted(rng.randrange(100) for _ in range(rng.randrange(10))):
                asked.append((begin, len(codes)))
                open_after.append(found[stack[-1]][3] if stack else -1)
                each = rng.choice((1, 2, 3, -1, -2, -3))
                places.append(place)
                times.append(now)
                codes.append(each)
                if each > 0:
                    stack.append(len(found))
                    found.append((place, now, -1, each - 1))
                elif stack:
                    at = stack.pop()
                    _, start, _, region = found[at]
                    found[at] = place, start, now - start, region
                    other += region != -1 - each
                else:
                    alone += 1
            asked.append((begin, len(codes)))
            open_after.append(found[stack[-1]][3] if stack else -1)
            expected += found
        own = Regions(np.array(places, np.int32), np.array(times, np.int64), np.array(codes, np.int64))
        columns = (own.place, own.start, own.length, own.region)
        assert list(zip(*(column.tolist() for column in columns), strict=True)) == expected
        assert (own.n_alone, own.n_other) == (alone, other)
        first, events = (np.array(column, np.int64) for column in zip(*asked, strict=True))
        assert own.open_at(first, events).tolist() == open_after


def test_an_end_belongs_to_the_begin_next_before_it() -> None:
    rng = random.Random(4)
    for _ in range(200):
        n = rng.randrange(10)
        key, is_end = [rng.randrange(2) for _ in range(n)], [rng.random() < 0.5 for _ in range(n)]
        begun: dict[int, int] = {}
        expected = []
        for at in range(n):
            if not is_end[at]:
                begun[key[at]] = at
            elif key[at] in begun:
                expected.append((begun.pop(key[at]), at))
        begin, end = paired((np.array(key, np.int64),), np.array(is_end, bool))
        assert sorted(zip(begin.tolist(), end.tolist(), strict=True)) == sorted(expected)


def test_the_kth_send_is_received_by_the_kth_receive_of_its_key() -> None:
    rng = random.Random(5)
    for _ in range(100):
        sent = [(rng.randrange(2), rng.randrange(3)) for _ in range(rng.randrange(8))]
        received = [(rng.randrange(2), rng.randrange(3)) for _ in range(rng.randrange(8))]
        expected = set()
        left = dict(enumerate(received))
        for at, key in enumerate(sent):
            other = next((place for place, own in left.items() if own == key), -1)
            left.pop(other, None)
            expected.add((at, other))
        expected |= {(-1, place) for place in left}
        found = matched(
            (np.array([key[0] for key in sent], np.int64), np.array([key[1] for key in sent], np.int64)),
            (np.array([key[0] for key in received], np.int64), np.array([key[1] for key in received], np.int64)),
        )
        assert set(zip(*(column.tolist() for column in found), strict=True)) == expected


def test_who_waits_is_known_only_where_all_take_part_and_agree() -> None:
    def of(kinds: list[int], members: int) -> tuple[list[int], int]:
        n = len(kinds)
        wait, n_other = waits(
            np.arange(n, dtype=np.int32), np.array([0, 10, 30][:n]), np.array([100, 15, 5][:n]), np.zeros(n, np.int64),
            np.array(kinds), np.full(n, members),
        )  # fmt: skip
        return wait.tolist(), n_other

    assert of([1, 1, 1], 3) == ([30, 15, 0], 0)  # never longer than it took
    assert of([1, 1], 3) == ([-1, -1], 0)
    assert of([1, 1, 2], 3) == ([-1, -1, -1], 3)
