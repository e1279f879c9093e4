"""What a digest says is what was found out, or nothing: a recording may come from anybody."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from gssr.model.joined.digest import by_identity, digest_of, traced_of
from gssr.model.traced import (
    SPLIT,
    IdleTime,
    Traced,
    TracedGap,
    TracedGpu,
    TracedKernel,
    TracedSteps,
    TracedVerdict,
)
from gssr.report.traced import judged, waits, worked
from gssr.store.format.limits import MOST_DIGEST, sound_rows
from gssr.store.format.rows import Gpu

SHARES = dict(zip(SPLIT, (0.5, 0.25, 0.0, 0.25), strict=True))
FOUND = Traced(
    path="run.traces/3.json", rank=3, gpus=(5, 6), start=1.7e9, end=1.7e9 + 4, share_of_run=0.0, score_inside=None,
    score_outside=None, clock="unix", clock_check="agrees", offset_s=-0.5, split=SHARES,
    by_gpu=(TracedGpu(5, 4.0, SHARES), TracedGpu(6, 3.5, SHARES)), idle=(IdleTime("host", 3, 1.5),),
    gaps=(TracedGap(1.7e9 + 1, 0.5, 6, "host", "aten::item"), TracedGap(1.7e9 + 2, 0.25, 5, "launch", None)),
    kernels=(TracedKernel("gemm", "compute", 7, 2.0),), kernel_seconds=3.0, steps=TracedSteps(4, 1.0, 0.5, 1.5, 0.75),
    verdicts=(TracedVerdict("short_kernels", "warning", "short"),), notes=("as told",), digest=True,
)  # fmt: skip


def gpus(n: int = 8, first: int = 0) -> list[Gpu]:
    none = dict.fromkeys(Gpu._fields)
    return [
        Gpu(**none | {"gpu": at + first, "node": f"n{at // 4}", "device_index": at % 4, "uuid": f"GPU-{at}"})  # type: ignore[arg-type]
        for at in range(n)
    ]


TEXT = digest_of(FOUND, gpus()) or ""
PLACES = by_identity(gpus())


def test_it_comes_back_as_it_was_by_the_gpus_own_names() -> None:
    assert traced_of(TEXT, PLACES, FOUND.path) == FOUND
    others = gpus()[::-1]
    found = traced_of(TEXT, by_identity(others), FOUND.path)
    assert found is not None and [others[at].uuid for at in found.gpus] == ["GPU-5", "GPU-6"]
    assert [others[gap.gpu].uuid for gap in found.gaps] == ["GPU-6", "GPU-5"]
    assert traced_of(TEXT, by_identity(gpus(6)), FOUND.path) is None  # of other GPUs
    alike = [gpu._replace(node=None, uuid=None) for gpu in gpus()]
    assert digest_of(FOUND, alike) is None  # which nothing tells apart


def test_a_digest_from_before_breakdowns_is_still_read() -> None:
    content = json.loads(TEXT)
    del content["breakdown"], content["estimate"]
    assert traced_of(json.dumps(content), PLACES, FOUND.path) == FOUND
    for wrong in ({"idle.host": -1.0}, {"idle.host": 9.0}, {"idle.other": 1.0}):
        assert traced_of(json.dumps(content | {"breakdown": wrong}), PLACES, FOUND.path) is None


WRONG = (
    None,
    True,
    "x",
    "\ud800",
    "x" * 5000,
    -1,
    -1.5,
    10**400,
    1e300,
    float("nan"),
    float("inf"),
    [],
    {},
    [[]] * 300,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield from places(each, (*path, key))


def test_no_digest_says_what_can_not_be() -> None:
    content, n = json.loads(TEXT), 0
    for path in places(content):
        for wrong in WRONG:
            changed = copy.deepcopy(content)
            above = changed
            for key in path[:-1]:
                above = above[key]
            if path:
                above[path[-1]] = wrong
            found = traced_of(json.dumps(changed if path else wrong), PLACES, "x")
            if found is not None:
                n += 1
                assert 0 <= found.start < found.end <= 1e11 and set(found.gpus) <= set(PLACES.values())
                assert all(0 <= share <= 1 for share in found.split.values())
                assert all(map(str.isprintable, (waits([found]), worked([found]), judged([found]))))
        if path:  # what is not there at all
            del above[path[-1]]
            traced_of(json.dumps(changed), PLACES, "x")
    assert 0 < n < 400


@pytest.mark.parametrize(
    "text", [None, "", "[" * 100_000, "{}", '{"version": 2}', TEXT[:-1], '{"version": 1}', "9" * 5000]
)
def test_what_is_none_is_none(text: str | None) -> None:
    assert traced_of(text, PLACES, "x") is None


def test_a_text_that_is_too_long_reads_as_none() -> None:
    names = ("path", "run_id", "format", "size", "mtime", "digest")
    row = ("a", "r", "kineto", 1, 1.0)
    (short, long) = sound_rows("traces", names, [(*row, TEXT), (*row, "x" * (MOST_DIGEST + 1))])
    assert (short[-1], long[-1]) == (TEXT, None)
