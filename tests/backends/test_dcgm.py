"""Sessions on the stand-in for DCGM, in virtual time."""

import importlib
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import pytest
from dcgm_bench import START, UUIDS, Bench, bindings_folder, fake_modules, messages, values_of

from gssr.metrics import BY_NAME, METRICS, PLACES, SCORE_INPUTS

PROFILED = [metric.name for metric in METRICS if metric.dcgm and metric.dcgm > 1000]
BASE = [metric.name for metric in METRICS if metric.dcgm and metric.dcgm < 1000]


@pytest.fixture(params=[3, 4])
def major(request):
    """DCGM's major version. Tests that repeat one session with other numbers name a version for each of them."""
    return request.param


@pytest.fixture
def bench(monkeypatch, major) -> Iterator[Bench]:
    monkeypatch.setenv("DCGM_BINDINGS", bindings_folder(major))
    monkeypatch.setenv("DCGM_HOST", "")
    monkeypatch.setattr("gssr.backends.dcgm.engine.probe", lambda _: "silent")
    monkeypatch.setattr("gssr.backends.dcgm.entities._mig_uuids", dict)
    monkeypatch.setattr(sys, "path", [*sys.path, bindings_folder(major) + "/.."])
    client, engine = importlib.import_module("fakedcgm.client"), importlib.import_module("fakedcgm.engine")
    bench = Bench(client, engine.HostEngine)
    start = bench.start_engine
    bench.start_engine = lambda **knobs: start(**{"major": major} | knobs)
    yield bench
    for name in fake_modules():
        del sys.modules[name]


def expected(engine, uuid: str, metric: str, since: float) -> list:
    """What the engine inserted for a metric after a time, in our units."""
    known = BY_NAME[metric]
    values = [
        value
        for name, field, stamp, value, inserted in engine.log
        if name == uuid
        and field == known.dcgm
        and stamp >= since * 1e6
        and value is not None
        and inserted <= engine.now()
    ]
    return [round(value * known.dcgm_factor) if known.integral else value * known.dcgm_factor for value in values]


@pytest.mark.parametrize(("major", "gpus", "seconds"), [(3, 2, 40), (4, 8, 10)])
def test_no_sample_is_lost_or_doubled_with_late_insertions(bench, gpus, seconds):
    engine = bench.start_engine(gpus=UUIDS[:gpus], late=0.04)
    session = bench.session(0.1)
    rows, changes = bench.run(session, seconds)
    rows += bench.rest(session)
    for gpu, uuid in enumerate(UUIDS[:gpus]):
        for metric in session.measures:
            assert values_of(rows, gpu, metric) == expected(engine, uuid, metric, START), (uuid, metric)
        inserted = {
            stamp // 100_000
            for name, _, stamp, _, at in engine.log
            if name == uuid and stamp >= START * 1e6 and at <= engine.now()
        }
        assert 10 * seconds - 8 < len(inserted) == len([row for row in rows if row[0] == gpu])
    assert [change for change in changes if "late" in change.message] == []


def recorded(rows, engine, gpu, metric, interval):
    """The values that rows hold, after checking that each is a sample of its row's interval and none is there twice."""
    stamps = {
        value: stamp / 1e6
        for name, field, stamp, value, _ in engine.log
        if name == UUIDS[gpu] and field == BY_NAME[metric].dcgm and value is not None
    }
    column = PLACES[metric]
    mine = [(row[1], row[column]) for row in rows if row[0] == gpu and row[column] is not None]
    assert all(abs(stamps[value] - time) < 0.51 * interval for time, value in mine)
    assert len({value for _, value in mine}) == len(mine)
    return [value for _, value in mine]


def test_values_that_an_engine_inserts_much_later_are_right_or_missing(bench):
    engine = bench.start_engine(late=0.8)
    session = bench.session(0.1)
    rows, changes = bench.run(session, 40)
    assert not changes
    for metric in ("sm_active", "dram_active", "power_usage"):
        assert len(recorded(rows, engine, 0, metric, 0.1)) > 40


@pytest.mark.parametrize(("major", "busy"), [(3, 0.8), (4, 0.2)])
def test_on_a_busy_node_few_of_the_engines_samples_are_missed(bench, busy):
    """The engine itself takes 60 to 90 % there."""
    engine = bench.start_engine(gpus=UUIDS[:1], busy=busy)
    session = bench.session(0.1)
    rows, changes = bench.run(session, 60)
    assert not changes, "a held-up engine is no lost GPU"
    for metric in ("sm_active", "dram_active", "power_usage"):
        theirs = expected(engine, UUIDS[0], metric, START)
        assert 360 < len(theirs) < 580
        assert len(recorded(rows, engine, 0, metric, 0.1)) > 0.9 * len(theirs)


@pytest.mark.parametrize(("major", "interval", "gpus"), [(4, 0.1, 8), (3, 0.5, 8), (4, 1.0, 2)])
def test_a_tick_is_one_call_whatever_the_number_of_gpus(bench, interval, gpus):
    """Reading histories is a round trip for each GPU and field: 216 a second for eight GPUs, a tenth of a core."""
    engine = bench.start_engine(gpus=UUIDS[:gpus])
    session = bench.session(interval)
    bench.run(session, 10)
    engine.calls.clear()
    rows, _ = bench.run(session, 20)
    n = round(20 / interval)
    calls = Counter(engine.calls)
    assert calls["latest"] == pytest.approx(n, abs=1) and calls["latest_live"] <= 3, "and a look at its clock"
    assert set(calls) == {"latest", "latest_live"}
    assert len(rows) == pytest.approx(gpus * n, abs=2 * gpus)


@pytest.mark.parametrize(("major", "seconds"), [(4, 0.13), (3, 0.35), (4, 2.6), (3, 4.0)])
def test_only_what_was_sampled_while_reading_was_held_up_is_missing(bench, seconds):
    engine = bench.start_engine()
    session = bench.session(0.1)
    rows, changes = bench.run(session, 5)
    for _ in range(4):
        bench.clock.now += seconds
        new_rows, new_changes = bench.run(session, 3)
        rows, changes = rows + new_rows, changes + new_changes
    rows += bench.rest(session)
    assert not changes
    for gpu, uuid in enumerate(UUIDS[:2]):
        for metric in session.measures:
            mine, theirs = values_of(rows, gpu, metric), expected(engine, uuid, metric, START)
            missing = 4 * (10 * seconds - 1)
            assert len(theirs) - len(mine) == pytest.approx(missing, abs=4)
        assert len(recorded(rows, engine, gpu, "sm_active", 0.1)) > 150


@pytest.mark.parametrize(("major", "interval"), [(4, 0.1), (3, 0.5), (4, 1.5), (3, 30.0)])
def test_an_engine_is_asked_at_least_once_a_second(bench, interval):
    bench.start_engine()
    session = bench.session(interval)
    for _ in range(30):
        assert session.due_in <= 1.0
        bench.run(session, session.due_in)


def test_values_in_another_order_are_told_apart(bench, monkeypatch):
    """DCGM promises no order; a structure may come with others' types."""
    from gssr.backends.dcgm.read import prepare_requests

    bench.start_engine()
    session = bench.session(0.1)
    bench.run(session, 2)
    engine = session._engine
    series = [((1, gpu), field) for gpu in (0, 1) for field in (155, 203, 1002)]
    (latest,) = prepare_requests(engine, series)
    first = list(latest.read())
    original = engine.call_library

    def turned(name, *arguments):
        original(name, *arguments)
        answer = arguments[-1]
        answer[:] = [type(each).from_buffer_copy(each) for each in reversed(answer)]

    monkeypatch.setattr(engine, "call_library", turned)
    second = list(latest.read())
    assert [number for number, *_ in first] == list(range(6)) and first == second[::-1]


def test_records_of_another_version_are_refused(bench, monkeypatch):
    """Their layout is another one: what was read from them would be garbage."""
    from gssr.backends.base import BackendError
    from gssr.backends.dcgm.read import prepare_requests

    bench.start_engine()
    session = bench.session(0.1)
    bench.run(session, 1)
    engine = session._engine
    monkeypatch.setattr(engine.bindings.structs, "dcgmFieldValue_version2", 3 << 24)
    (latest,) = prepare_requests(engine, [((1, 0), 155)])
    with pytest.raises(BackendError, match="other records than its Python bindings describe"):
        latest.read()


def test_a_chain_of_the_engines_own_next_times_would_lose_samples(bench):
    """The stand-in really does what going back is for."""
    engine = bench.start_engine(late=0.8)
    session = bench.session(0.1)
    (watch,) = [watch for watch in session._watches.live if 1002 in watch.fields]
    since, chained = round(START * 1e6), []
    for _ in range(10):
        bench.clock.now += 1.0
        chained += engine.samples(0, watch.entities[0], 1002, since, engine.now())
        since = engine.now() + 1
    assert len(chained) < 0.9 * len(expected(engine, UUIDS[0], "sm_active", START))


def test_rows_stand_at_their_own_time_one_per_interval(bench):
    engine = bench.start_engine(jitter=0.02)
    session = bench.session(0.1)
    rows, _ = bench.run(session, 20)
    times = [row[1] for row in rows if row[0] == 0]
    steps = [after - before for before, after in pairwise(times)]
    assert all(step == pytest.approx(0.1, abs=1e-4) for step in steps)
    stamps = {value: stamp / 1e6 for name, field, stamp, value, _ in engine.log if name == UUIDS[0] and field == 1002}
    for row in rows:
        value = row[PLACES["sm_active"]]
        if row[0] == 0 and value is not None:
            assert row[1] == pytest.approx(stamps[value], abs=0.06)


def test_rows_come_soon_and_never_from_the_future(bench):
    bench.start_engine()
    session = bench.session(0.5)
    bench.run(session, 5)
    rows, _ = bench.run(session, 1)
    assert bench.clock.now - 1.1 < rows[-1][1] <= bench.clock.now


def test_the_first_profiling_sample_is_missing_and_not_zero(bench):
    bench.start_engine()
    session = bench.session(0.1)
    rows, _ = bench.run(session, 2)
    first = next(row for row in rows if row[0] == 0)
    assert all(first[PLACES[name]] is None for name in session.measures if name in PROFILED)
    assert first[PLACES["power_usage"]] > 0


def test_units_are_the_catalogues(bench):
    engine = bench.start_engine()
    session = bench.session(0.1)
    rows, _ = bench.run(session, 3)
    row = rows[40]
    assert 0 <= row[PLACES["gpu_utilization"]] <= 1
    assert row[PLACES["energy"]] == pytest.approx(row[1], rel=1e-3)  # the engine's joules are the time
    assert row[PLACES["memory_used"]] % (1 << 20) == 0
    assert engine.log


@pytest.mark.parametrize(
    ("since", "metric", "period"), [(0.0, "power_usage", 0.1), (3.21, "sm_active", 0.1), (3.21, "sm_active", 0.3)]
)
def test_others_that_sample_faster_double_nothing(bench, since, metric, period):
    """The fastest watcher sets the rate for all: of several samples in an interval the newest is recorded."""
    engine = bench.start_engine(gpus=UUIDS[:1])
    known = BY_NAME[metric]

    def watch():
        other = engine.group_create(99, 1, "other")
        engine.group_add(99, other, 1, 0)
        engine.watch(99, other, engine.fields_create(99, [known.dcgm], "other"), round(period * 1e6), 60.0, 0)

    if not since:
        watch()
    session = bench.session(0.5)
    rows = []
    if since:
        rows, _ = bench.run(session, since)
        watch()
    rows += bench.run(session, 20)[0]
    n = round((20 + since) / 0.5)
    assert len(rows) == pytest.approx(n, abs=3)
    assert len(recorded(rows, engine, 0, metric, 0.5)) == pytest.approx(n, abs=3)
    assert values_of(rows, 0, "energy") == expected(engine, UUIDS[0], "energy", START)[: len(rows)]


@pytest.mark.parametrize("ahead", [0.0, 60.0])
def test_what_others_had_sampled_before_is_not_ours(bench, ahead):
    engine = bench.start_engine(gpus=UUIDS[:1], ahead=ahead)
    other = engine.group_create(99, 1, "other")
    engine.group_add(99, other, 1, 0)
    fields = engine.fields_create(99, [1002], "other")
    engine.watch(99, other, fields, 100_000, 60.0, 0)
    bench.clock.now += 30
    assert engine.samples(99, (1, 0), 1002, 0, engine.now())
    begin = bench.clock.now
    session = bench.session(0.1)
    rows, _ = bench.run(session, 3)
    assert min(row[1] for row in rows) > begin - 0.1


def test_an_unknown_field_costs_only_its_metric(bench, major):
    bench.start_engine()
    session = bench.session()
    assert ("c2c_tx_bytes" in session.measures) == (major == 4)
    rows, _ = bench.run(session, 3)
    assert values_of(rows, 0, "sm_active") and values_of(rows, 0, "power_usage")


@pytest.mark.parametrize(
    ("code", "cure"), [(-33, "datacenter-gpu-manager-4-proprietary"), (-36, "Volta"), (-37, "end the other profiler")]
)
def test_refused_profiling_leaves_the_base_fields_and_one_line(bench, code, cure):
    bench.start_engine(profiling=code)
    session = bench.session()
    assert set(session.measures) == set(BASE)
    (line,) = session.notes
    assert str(code) in line and cure in line and "\n" not in line
    rows, changes = bench.run(session, 5)
    assert len(values_of(rows, 1, "power_usage")) > 30
    assert not [change for change in changes if change.kind == "gpu_lost"]


def test_a_failing_profiling_field_costs_no_metric_that_the_score_needs(bench):
    engine = bench.start_engine(failing=[1015])
    session = bench.session()
    assert {name for name in session.measures if name in PROFILED} == set(SCORE_INPUTS)
    (note,) = session.notes
    assert "NVIDIA H100 can't measure all metrics together, left out are" in note and "Tensor DFMA" in note
    rows, _ = bench.run(session, 3)
    assert values_of(rows, 0, "sm_active") and values_of(rows, 0, "power_usage")
    session.close()
    assert engine.left_behind == 0


@pytest.mark.parametrize(("code", "calls"), [(-37, 3), (-3, 9)])
def test_an_engine_that_refuses_profiling_is_not_asked_field_by_field(bench, code, calls):
    engine = bench.start_engine(gpus=UUIDS[:1], profiling=code)
    bench.session()
    assert sum(name in ("watch", "unwatch", "fields_create", "fields_destroy") for name in engine.calls) <= calls


def test_gpus_of_two_models_are_watched_apart(bench):
    bench.start_engine(models={"GPU-b": "NVIDIA A100"})
    session = bench.session()
    rows, _ = bench.run(session, 3)
    assert values_of(rows, 0, "sm_active") and values_of(rows, 1, "sm_active")


def test_unsupported_and_forbidden_values_are_missing_and_named_once(bench):
    bench.start_engine(unsupported=[140, 1011], forbidden=[1002])
    session = bench.session()
    assert "memory_temperature" not in session.measures
    rows, changes = bench.run(session, 30)
    assert not values_of(rows, 0, "sm_active") and not values_of(rows, 0, "nvlink_tx_bytes")
    said = messages(changes, "backend")
    assert len(said) == 2
    assert "not permitted for SM active: ask" in said[0] and "not supported for NVLink sent" in said[1]


def test_a_lost_gpu_leaves_the_others_and_comes_back(bench):
    engine = bench.start_engine(gpus=UUIDS[:3])
    session = bench.session()
    bench.run(session, 5)
    engine.knobs["lost"] = ["GPU-b"]
    rows, changes = bench.run(session, 10)
    assert [(change.kind, change.gpu) for change in changes] == [("gpu_lost", 1)]
    assert len(values_of(rows, 0, "power_usage")) == pytest.approx(100, abs=5)
    assert len([row for row in rows if row[0] == 1]) < 20
    engine.knobs["lost"] = []
    rows, changes = bench.run(session, 5)
    assert [(change.kind, change.gpu) for change in changes] == [("gpu_back", 1)]
    assert values_of(rows, 1, "power_usage")


def test_a_gpu_that_dcgm_says_is_lost_is_so_until_it_has_values(bench, monkeypatch):
    """Also at reads between two samples, at which nothing is new."""
    bench.start_engine()
    session = bench.session(4.0)
    bench.run(session, 10)
    (request,) = session._requests
    second = {number for number, (entity, _) in enumerate(session._series) if entity == (1, 1)}

    def said_to_be_lost():
        return [(number, -18 if number in second else 0, stamp, value) for number, _, stamp, value in read()]

    read = request.read
    monkeypatch.setattr(request, "read", said_to_be_lost)
    _, changes = bench.run(session, 12)
    assert [(change.kind, change.gpu) for change in changes] == [("gpu_lost", 1)]
    monkeypatch.setattr(request, "read", read)
    _, changes = bench.run(session, 12)
    assert [(change.kind, change.gpu) for change in changes] == [("gpu_back", 1)]


def hold_back(engine, gpus):
    """From now on have the engine answer with nothing newer of these GPUs."""
    latest, newest = type(engine)._latest, engine.now()
    engine._latest = lambda entity, field, now: latest(engine, entity, field, newest if entity[1] in gpus else now)


def test_gpus_are_not_lost_while_their_engine_tells_nothing(bench):
    """Once 10 hangs of 3 to 5 s were 21 broken GPUs: the first answer after one still has the old stamps, and then one GPU
    is sampled after the other."""
    engine = bench.start_engine(gpus=UUIDS)
    session = bench.session(0.1)
    bench.run(session, 5)
    changes = []
    for seconds in (3.2, 3.9, 4.8):
        hold_back(engine, range(8))
        bench.clock.now += seconds
        changes += bench.run(session, 0.05)[1]
        hold_back(engine, range(4, 8))
        changes += bench.run(session, 1)[1]
        del engine._latest
        changes += bench.run(session, 5)[1]
    assert not changes


def test_an_engine_that_answers_and_samples_nothing_is_lost_and_not_its_gpus(bench):
    from gssr.backends.base import BackendError

    engine = bench.start_engine()
    session = bench.session(0.1)
    bench.run(session, 2)
    hold_back(engine, range(8))
    assert not bench.run(session, 4.5)[1]
    with pytest.raises(BackendError, match="answers, but has sampled nothing for 5 s"):
        bench.run(session, 2)


@pytest.mark.parametrize("ahead", [-3600.0, 5.0, 3600.0])
def test_the_engines_clock_is_taken_out(bench, ahead):
    bench.start_engine(ahead=ahead)
    session = bench.session()
    rows, _ = bench.run(session, 10)
    assert rows[0][1] == pytest.approx(START, abs=0.3)
    assert rows[-1][1] == pytest.approx(START + 10, abs=0.5)


@pytest.mark.parametrize("step", [-600, 600])
def test_an_engines_clock_that_is_set_stops_nothing(bench, step):
    engine = bench.start_engine()
    session = bench.session()
    before, _ = bench.run(session, 10)
    engine.set_clock(step)
    rows, changes = bench.run(session, 20)
    rows = before + rows
    assert not changes
    times = [row[1] for row in rows if row[0] == 0]
    assert times == sorted(times) and times[0] >= START and times[-1] <= bench.clock.now
    assert len(times) > 270, "a second or two is lost, no more"


def test_everything_is_given_back(bench):
    engine = bench.start_engine()
    session = bench.session()
    bench.run(session, 3)
    assert engine.left_behind
    calls = engine.calls
    session.close()
    assert engine.left_behind == 0
    destroyed = [name for name in calls if name in ("unwatch", "fields_destroy")]
    assert destroyed[0::2] == ["unwatch"] * (len(destroyed) // 2), "unwatched before the groups go"


def test_many_sessions_side_by_side_have_names_of_their_own(bench):
    bench.start_engine()
    sessions = [bench.session() for _ in range(5)]
    assert all(bench.run(session, 2)[0] for session in sessions)


def test_mig_instances_are_rows_with_what_is_measured_there(bench):
    engine = bench.start_engine(mig={"GPU-a": [(1, 0), (2, 0), (2, 1)]})
    session = bench.session(choose=lambda found: found)
    rows, _ = bench.run(session, 5)
    rows += session.flush()
    # One that is alone is measured by its GPU instance; what shares one, by itself.
    names = ["GPU-a/1", "MIG-GPU-a/2/0", "MIG-GPU-a/2/1", "GPU-b"]
    for position, name in enumerate(names):
        assert values_of(rows, position, "sm_active") == expected(engine, name, "sm_active", START)
    assert values_of(rows, 0, "dram_active"), "an instance alone on its GPU instance has its memory traffic"
    assert not values_of(rows, 1, "dram_active") and not values_of(rows, 2, "dram_active")
    assert not values_of(rows, 0, "power_usage") and values_of(rows, 3, "power_usage")
    assert not values_of(rows, 0, "pcie_tx_bytes")


def test_mig_instances_are_told_apart(bench):
    from gssr.backends.dcgm.engine import reach
    from gssr.backends.dcgm.entities import discover

    bench.start_engine(mig={"GPU-a": [(1, 0), (2, 0)]})
    devices = [each.device for each in discover(reach())]
    assert [device.uuid for device in devices] == ["MIG-GPU-a/1/0", "MIG-GPU-a/2/0", "GPU-b"]
    assert [device.mig for device in devices] == ["GI 1 CI 0", "GI 2 CI 0", None]


def test_a_paused_run_frees_the_counters_and_gives_them_back(bench):
    engine = bench.start_engine(pausable=True)
    session = bench.session(pause=True)
    assert engine.paused and set(session.measures) == set(BASE)
    assert "paused" in session.notes[0]
    session.close()
    assert not engine.paused


def test_where_nothing_needs_pausing_nothing_is_paused(bench):
    bench.start_engine()
    session = bench.session(pause=True)
    assert "no pausing" in session.notes[0] and "sm_active" in session.measures


def test_a_device_says_what_it_is(bench):
    from gssr.backends.dcgm.engine import reach
    from gssr.backends.dcgm.entities import discover

    bench.start_engine()
    device = discover(reach())[1].device
    assert (device.device_index, device.uuid, device.name) == (1, "GPU-b", "NVIDIA H100")
    assert (device.memory_total, device.power_limit, device.max_sm_clock) == (81559 << 20, 700.0, 1980)
    assert (device.compute_capability, device.driver_version) == ("9.0", "570.00")


def test_instances_that_were_watched_before_have_data_at_once(bench):
    """The engine's loop leaves them for up to 10 s: once that was a false loss, and a false word of another profiler."""
    bench.start_engine(mig={"GPU-a": [(1, 0), (2, 0)]})
    for _ in range(2):
        session = bench.session(choose=lambda found: [each for each in found if each.device.mig])
        rows, changes = bench.run(session, 4)
        assert not changes
        assert len(values_of(rows, 0, "sm_active")) == pytest.approx(38, abs=3)
        session.close()
        bench.clock.now += 3


def test_counters_that_are_forbidden_are_said_within_two_seconds_permission_first(bench):
    """On Hopper that comes as plain blanks."""
    bench.start_engine(hidden=True)
    session = bench.session(0.5)
    _, changes = bench.run(session, 2)
    (said,) = messages(changes, "backend")
    assert "all profiling metrics (SM, tensor, memory activity)" in said and "not be permitted" in said
    assert said.index("permitted") < said.index("another profiler") and "before Hopper" in said


def test_a_gpu_without_counters_costs_no_other_its_own(bench):
    bench.start_engine(gpus=UUIDS[:3], without_gpm={"GPU-b": -36})
    session = bench.session()
    rows, _ = bench.run(session, 3)
    assert [bool(values_of(rows, gpu, "sm_active")) for gpu in range(3)] == [True, False, True]
    assert all(values_of(rows, gpu, "power_usage") for gpu in range(3))
    (note,) = session.notes
    assert "of NVIDIA H100 (GPU 1): these GPUs have none in DCGM (error -36)" in note
    session.close()
    assert bench.engine.left_behind == 0


@pytest.mark.parametrize("models", [{}, {"GPU-b": "NVIDIA A100"}])
def test_a_session_takes_one_group_where_it_can(bench, models):
    engine = bench.start_engine(models=models)
    session = bench.session()
    bench.run(session, 3)
    assert len(engine._groups) == (1 if not models else 2), "one for each model"
    rows, _ = bench.run(session, 2)
    assert values_of(rows, 1, "power_usage")


@pytest.mark.parametrize(("knob", "what"), [("groups", "group"), ("field_groups", "field group")])
def test_a_full_engine_is_said_with_the_cure(bench, knob, what):
    from gssr.backends.base import BackendError

    engine = bench.start_engine(**{knob: 64})
    with pytest.raises(BackendError, match=f"no room for another {what} .*dcgmi {what.replace(' ', '')}"):
        bench.session()
    assert engine.left_behind == 0


def test_with_room_for_one_field_group_profiling_metrics_are_recorded(bench):
    bench.start_engine(field_groups=60)
    session = bench.session()
    rows, _ = bench.run(session, 3)
    assert values_of(rows, 0, "sm_active") and not values_of(rows, 0, "power_usage")
    assert any("no room for another field group" in note for note in session.notes)


def test_why_nothing_was_paused_is_said_as_far_as_it_is_known(bench):
    """DCGM answers the same for Hopper, which needs no pausing, and before it, where its module is missing."""

    def notes(capability):
        def of(found):
            return [each._replace(device=each.device._replace(compute_capability=capability)) for each in found]

        session = bench.session(pause=True, choose=of)
        session.close()
        return session.notes[0]

    bench.start_engine()
    assert notes("9.0").endswith("these GPUs need no pausing")
    assert "can't do it" in notes("8.0") and "proprietary" in notes("8.0") and "no pausing" not in notes("8.0")
    assert "no pausing (Hopper and newer), or" in notes(None) and "proprietary" in notes(None)


@pytest.mark.parametrize("capability", ["9.0", "10.0", "8.0", None])
def test_beside_others_no_counters_are_taken_that_they_may_need(bench, capability):
    def of(found):
        return [each._replace(device=each.device._replace(compute_capability=capability)) for each in found]

    engine = bench.start_engine()
    session = bench.session(choose=of, beside=True)
    rows, _ = bench.run(session, 3)
    shared = capability in ("9.0", "10.0")
    assert bool(values_of(rows, 0, "sm_active")) == shared and values_of(rows, 0, "power_usage")
    watched = {field for watch in session._watches.live for field in watch.fields}
    assert any(field >= 1000 for field in watched) == shared
    assert any("would take the counters" in note for note in session.notes) != shared
    session.close()
    assert engine.left_behind == 0


def test_keep_age_is_whole_seconds_and_long_enough():
    from gssr.backends.dcgm.watch import keep_seconds

    assert keep_seconds(0.1, "4.6.0", shared=True) == 10.0
    assert keep_seconds(2.5, "4.6.0", shared=True) == 13.0
    assert keep_seconds(12.0, "4.6.0", shared=True) == 60.0
    assert keep_seconds(0.1, "4.1.0", shared=True) == keep_seconds(0.1, "", shared=True) == 3600.0
    assert keep_seconds(0.1, "3.3.9", shared=False) == 10.0, "nobody else can use an engine in this process"


def test_other_clients_keep_their_history(bench):
    """On DCGM 3 the shortest age of all watchers holds: ours once cut an hour's history to 10 s."""
    engine = bench.start_engine(gpus=UUIDS[:1])
    other = engine.group_create(99, 1, "other")
    engine.group_add(99, other, 1, 0)
    engine.watch(99, other, engine.fields_create(99, [155], "other"), 100_000, 75.0, 0)
    session = bench.session(0.1, shared=True)
    bench.run(session, 16)
    assert len(engine.samples(99, (1, 0), 155, 0, engine.now())) == pytest.approx(160, abs=2)


@pytest.mark.parametrize("interval", [0.1, 30.0])
def test_whether_an_engine_samples_profiling_metrics_for_others_is_read_from_its_cache(bench, monkeypatch, interval):
    """30 s is how often dcgm-exporter samples, unless it is told otherwise."""
    from types import SimpleNamespace

    from gssr.backends.dcgm.availability import samples_profiling
    from gssr.backends.dcgm.engine import reach
    from gssr.backends.dcgm.entities import discover

    engine = bench.start_engine()
    monkeypatch.setattr("gssr.backends.dcgm.availability.time", SimpleNamespace(time=bench.clock))
    asking = reach()
    found = discover(asking)
    assert not samples_profiling(asking, found) and not engine.log and engine.left_behind == 0
    theirs = bench.session(interval)
    for _ in range(4):
        bench.clock.now += interval
        engine.update_all(0)
    bench.clock.now += 0.9 * interval
    left = engine.left_behind
    assert samples_profiling(asking, found) and engine.left_behind == left
    theirs.close()
    bench.clock.now += 3 * interval
    assert not samples_profiling(asking, found)
