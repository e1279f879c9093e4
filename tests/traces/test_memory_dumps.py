"""PyTorch's memory snapshots and memory timelines. What a snapshot must say is counted here from the steps of the allocator
that wrote it."""

import csv
import io
import json
import pickle
from pathlib import Path

import pytest

from gssr.cli import main
from gssr.model.traces.memory import DeviceMemory, device_memories, name_of
from gssr.recognise import MEMORY, recognise
from gssr.traces.memory_dump import Frame, read_memory_dump
from gssr.traces.timeline import TraceError
from tests.fakes.traces.torch_memory import MIB, Allocator, frames, snapshot, trained, write_snapshot, write_timeline


def _memory(path: Path, limit: int | None = None) -> DeviceMemory:
    (found,) = device_memories(str(path), read_memory_dump(str(path)), limit)
    return found


def _counted(allocator: Allocator) -> list[dict[int, int]]:
    """The requested bytes by address that are alive before each step, and in the end."""
    alive: dict[int, int] = {}
    found = [{}]
    for step in allocator.steps:
        if step["action"] == "alloc":
            alive[step["addr"]] = step["size"]
        elif step["action"] == "free_requested":
            del alive[step["addr"]]
        found.append(dict(alive))
    return found


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_the_peak_is_what_was_alive_at_once(tmp_path: Path, protocol: int) -> None:
    own = trained()
    found = _memory(write_snapshot(tmp_path / "rank3.pickle", own, protocol=protocol))
    most = max(_counted(own), key=lambda alive: sum(alive.values()))
    assert (found.rank, found.device) == (3, 0)
    assert found.peak_bytes == sum(most.values()) and found.alive is not None
    assert [each.size for each in found.alive] == sorted(most.values(), reverse=True)
    assert found.sizes[:, 0].max() == found.peak_bytes
    assert found.total("reserved") == sum(segment["total_size"] for segment in own.segments)
    assert found.total("allocated") == sum(segment["allocated_size"] for segment in own.segments)
    assert found.requested == sum(segment["requested_size"] for segment in own.segments)
    blocks = [block for segment in own.segments for block in segment["blocks"] if block["state"] == "inactive"]
    assert found.largest_free == max(block["size"] for block in blocks)
    assert found.total("free") == sum(block["size"] for block in blocks)


def test_what_was_there_before_the_history_began_counts(tmp_path: Path) -> None:
    own = trained()
    whole = _memory(write_snapshot(tmp_path / "a.pickle", own))
    del own.steps[: len(own.steps) // 2]  # the buffer holds the newest steps alone
    half = _memory(write_snapshot(tmp_path / "b.pickle", own))
    assert half.peak_bytes == whole.peak_bytes and half.alive is not None and whole.alive is not None
    assert [each.size for each in half.alive] == [each.size for each in whole.alive]
    assert half.reserved_at_peak == whole.reserved_at_peak


def test_without_a_history_the_peak_is_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = Allocator(history=False)
    own.alloc(5 * MIB, frames("/home/me/train.py:3 main"))
    path = write_snapshot(tmp_path / "a.pickle", own)
    assert _memory(path).peak_bytes is None
    assert main(["analyze", str(path)]) == 0
    assert "unknown: no history was recorded" in capsys.readouterr().out


def test_an_allocation_that_failed_says_what_would_have_to_go(tmp_path: Path) -> None:
    own = trained()
    (failure,) = _memory(write_snapshot(tmp_path / "a.pickle", own)).failures
    at = next(number for number, step in enumerate(own.steps) if step["action"] == "oom")
    alive = sum(_counted(own)[at].values())
    assert (failure.asked, failure.requested, failure.free) == (512 * MIB, alive, 100 * MIB)
    assert failure.fit.over == alive + 512 * MIB - failure.reserved - 100 * MIB
    assert name_of(failure.stack) == "/home/me/model.py:99 loss"


def test_to_fit_the_largest_go_first_and_no_more_than_must(tmp_path: Path) -> None:
    path = write_snapshot(tmp_path / "a.pickle", trained())
    peak = _memory(path).peak_bytes or 0
    fit = _memory(path, peak - 31 * MIB).fit
    assert fit is not None and fit.over == 31 * MIB
    assert [each.size for each in fit.largest] == [30 * MIB + 4] * 2
    spare = _memory(path, peak + 1).fit
    assert spare is not None and (spare.over, spare.largest) == (-1, ())


def test_a_line_of_the_program_is_named_before_one_of_pytorch() -> None:
    inner = Frame("/env/site-packages/torch/nn/functional.py", 5, "linear")
    own, native = Frame("/home/me/a.py", 7, "forward"), Frame("??", 0, "at::_ops::bmm::call(at::Tensor const&)")
    assert name_of((native, inner, own)) == "/home/me/a.py:7 forward"
    assert name_of((native, inner)) == "/env/site-packages/torch/nn/functional.py:5 linear"
    assert name_of((native,)) == "operator bmm"
    assert name_of(()) == ""


def test_both_forms_of_a_timeline_say_the_same(tmp_path: Path) -> None:
    raw = _memory(write_timeline(tmp_path / "memory_timeline.raw.json.gz", raw=True))
    summed = _memory(write_timeline(tmp_path / "memory_timeline.json", raw=False))
    for found in (raw, summed):
        assert found.peak_bytes == 4000 + 8000 + 1000 + 600
        assert found.at_peak is not None
        assert {name: n for name, n in found.at_peak.items() if n} == {
            "parameter": 4000, "optimizer state": 8000, "activation": 1600,
        }  # fmt: skip
        assert found.alive is None and found.pools is None
    assert raw.sizes[-1].tolist() == summed.sizes[-1].tolist() == [4000, 8000, 0, 0, 0, 0, 0, 50]


def test_json_and_tables_have_the_numbers_by_rank_and_device(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    paths = [str(write_snapshot(tmp_path / f"rank{rank}.pickle", trained(seed=rank), trained(1))) for rank in (0, 1)]
    assert main(["analyze", "--json", *paths]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["schema"] == "gssr.memory/1"
    devices = told["memory"]["devices"]
    assert [(each["rank"], each["device"]) for each in devices] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert told["memory"]["peak_bytes"] == max(each["peak_bytes"] for each in devices)
    for each in devices:
        assert sum(place["bytes"] for place in each["places"]) == each["peak_bytes"]
    for table, column in (("memory", "peak_bytes"), ("allocations", "bytes"), ("memory_over_time", "bytes")):
        assert main(["analyze", "--csv", table, *paths]) == 0
        rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
        first = [int(row[column]) for row in rows if (row["rank"], row["device"]) == ("0", "0")]
        if table == "allocations":
            assert sum(first) == devices[0]["peak_bytes"]
        elif table == "memory":
            assert first == [devices[0]["peak_bytes"]]
    assert main(["analyze", str(tmp_path)]) == 0
    assert "Which GPU?" in capsys.readouterr().out


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_line_is_wider_than_the_page(tmp_path: Path, width: int, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_snapshot(tmp_path / "a.pickle", trained(), trained(1))
    assert main(["analyze", "--ascii", "--width", str(width), "--memory-limit", "200M", str(path)]) == 0
    out = capsys.readouterr().out
    assert out.isascii()
    assert max(map(len, out.splitlines()[:-1])) <= width


class _Harmful:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return print, ("it ran",)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (pickle.dumps({"segments": _Harmful()}, 4), "imports something"),
        (pickle.dumps({"segments": _Harmful()}, 2), "imports something"),
        (b"\x80\x02}(X\x08\0\0\0segmentsQ.", "names something outside"),
        (b"\x80\x02}(X\x08\0\0\0segments", "cut off"),
        (b"\x80\x02}(X\x08\0\0\0segments]r\xff\xff\xff\x7f.", "out of order"),
        (b"\x80\x02}(X\x08\0\0\0segments\x8b\xff\xff\xff\x7f.", "bytes long"),
        (b"\x80\x04}(\x8c\x08segments\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.", "cut off"),
        (b"\x80\x04\x8c\x08segments)\x85.", "ends within"),
        (b"\x80\x04}(\x8c\x08segments" + b"](" * 2_000_000, "far more than its size"),
        (b"\x80\x04}(\x8c\x08segments]K\1K\2u.", "keys are no texts"),
        (pickle.dumps({"segments": [{"total_size": -5}]}), "no number of bytes"),
        (pickle.dumps({"segments": [{"total_size": 1, "device": 9999}]}), "1,024 GPUs"),
        (pickle.dumps({"segments": "x"}), "neither a memory snapshot"),
        (b"[[1, 2, 3, 99]]", "steps or categories"),
        (b"[[1, 2], [[0, 1]]]", "no row of 9"),
        (b"[[1, 1, -5, 0]]", "less than nothing"),
        (b"[[" + b"0," * 40_000_000 + b"0]]", "far more than its size"),
        (b"[[1," + b"[" * 100_000, "JSON"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_hostile_dumps_are_refused_in_a_sentence(
    tmp_path: Path, data: bytes, says: str, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    path = tmp_path / "a.pickle"
    path.write_bytes(data)
    with pytest.raises(TraceError) as caught:
        read_memory_dump(str(path))
    assert says in str(caught.value) and str(path) in str(caught.value) and "\n" not in str(caught.value)
    assert "it ran" not in capsys.readouterr().out


def test_a_list_that_holds_itself_is_gone_through_once(tmp_path: Path) -> None:
    held = snapshot(trained())
    held["segments"].append({"total_size": 0, "blocks": held["segments"], "frames": held})
    held["device_traces"].append(held["device_traces"])
    path = tmp_path / "a.pickle"
    path.write_bytes(pickle.dumps(held))
    with pytest.raises(TraceError, match="no number of bytes"):
        read_memory_dump(str(path))


def test_each_kind_is_known_by_its_content_and_other_pickles_are_refused(tmp_path: Path) -> None:
    assert recognise(str(write_snapshot(tmp_path / "x", trained()))).kind == MEMORY
    for name, raw in (("y", True), ("z.gz", True), ("w", False)):
        assert recognise(str(write_timeline(tmp_path / name, raw))).kind == MEMORY
    other = tmp_path / "model.pkl"
    other.write_bytes(pickle.dumps([1, 2, 3]))
    assert "can run what it holds" in recognise(str(other)).problem


def test_options_of_recordings_and_wrong_tables_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(write_snapshot(tmp_path / "a.pickle", trained()))
    for words, says in (
        (["--gpus", "0"], "--gpus: is for recordings and traces"),
        (["--csv", "kernels"], "there are: memory, allocations, memory_over_time, segments"),
        (["--memory-limit", "much"], "is not a size"),
        ([path, str(write_timeline(tmp_path / "b", raw=True)), __file__], f"{__file__} is none of its kind"),
    ):
        assert main(["analyze", *words, path]) == 2
        assert says in capsys.readouterr().err
    assert main(["export", "--format", "csv", "-o", str(tmp_path / "out"), path]) != 0
    assert "gssr analyze shows it" in capsys.readouterr().err
