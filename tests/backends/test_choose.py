"""Which GPUs are this process's, as a table."""

import pytest

from gssr.backends.base import BackendError, Device
from gssr.backends.choose import choose

A, B, C, D = (f"GPU-{letter * 8}-0000-4000-8000-00000000000{letter}" for letter in "abcd")
NODE = [(Device(index, uuid), uuid) for index, uuid in enumerate((A, B, C, D))]
TWO = NODE[:2]  # what a device cgroup leaves, numbered from 0
MIG = [(Device(0, A), A), (Device(1, "MIG-b1"), B), (Device(1, "MIG-b2"), B), (Device(2, "MIG-c1"), C)]


@pytest.mark.parametrize(
    ("seen", "visible", "expected"),
    [
        (NODE, None, [0, 1, 2, 3]),
        (NODE, (), []),
        (NODE, ("0",), [0]),
        (NODE, ("3", "1"), [1, 3]),
        (NODE, ("0", "1", "2", "3"), [0, 1, 2, 3]),
        (TWO, ("2", "3"), [0, 1]),  # node-wide indices, GPUs renumbered
        (TWO, ("0", "1"), [0, 1]),
        (TWO[:1], ("7",), [0]),
        (TWO, ("1",), [1]),
        (NODE, ("5", "6"), [0, 1, 2, 3]),  # another numbering: nothing better than all
        (TWO, ("0", "1", "2", "3"), [0, 1]),
        (NODE, (B,), [1]),
        (NODE, ("GPU-c",), [2]),
        (NODE, (D, A), [0, 3]),
        (NODE, (D, "GPU-nowhere"), [3]),
        (MIG, ("MIG-b2",), [2]),
        (MIG, (B,), [1, 2]),
        (MIG, ("0",), [0]),
        (MIG, ("1",), [1, 2]),
        (MIG, ("4", "5", "6"), [0, 1, 2, 3]),
        (MIG, ("MIG-c1", "0"), [0, 3]),
        ([], None, []),
        ([], ("0",), []),
    ],
)
def test_uuids_decide_and_indices_where_they_can_mean_nothing_else(seen, visible, expected):
    assert list(choose(seen, visible)[0]) == expected


@pytest.mark.parametrize(
    ("seen", "visible", "said"),
    [
        (NODE, ("5", "6"), "5, 6"),
        (TWO, ("0", "1", "2"), "was given 3 GPUs and the driver shows 2"),
        (NODE, (D, "GPU-nowhere"), "GPU-nowhere"),
        (NODE, ("2", "3"), ""),
        (TWO, ("2", "3"), ""),
        (NODE, None, ""),
    ],
)
def test_what_is_not_as_asked_is_said(seen, visible, said):
    _, remark = choose(seen, visible)
    assert said in remark and bool(said) == bool(remark)


def test_uuids_that_nobody_has_are_an_error_that_names_those_there_are():
    with pytest.raises(BackendError, match=f"GPU-nowhere.*{A}"):
        choose(NODE, ("GPU-nowhere",))


def test_no_gpu_of_another_is_ever_taken_by_uuid():
    for wanted in (A, B, C, D):
        assert [NODE[position][0].uuid for position in choose(NODE, (wanted,))[0]] == [wanted]
