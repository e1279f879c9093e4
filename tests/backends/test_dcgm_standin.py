"""The stand-in for DCGM itself: as unkind as libdcgm 3.3.9 and 4.6.0 are (tests/fakes/dcgm/README.md)."""

import ctypes
import importlib
import signal
import sys
import threading
import time
from itertools import pairwise
from types import SimpleNamespace

import pytest
from dcgm_bench import START, UUIDS, EngineProcess, VirtualTime, bindings_folder, fake_modules

GPU, GPU_I, GPU_CI = 1, 4, 5
BASE = [155, 203, 150]
PROFILED = [1002, 1005, 1009]
INT64_BLANK, DOUBLE_BLANK = 9223372036854775792, 140737488355328.0


@pytest.fixture
def load(monkeypatch):
    """Loads the bindings of a major version."""
    monkeypatch.setattr(sys, "path", list(sys.path))

    def bindings(major):
        forget()
        sys.path.insert(0, bindings_folder(major))
        structs, agent, fields = (importlib.import_module(f"dcgm_{name}") for name in ("structs", "agent", "fields"))
        structs._dcgmInit()
        agent.dcgmInit()
        return SimpleNamespace(structs=structs, agent=agent, fields=fields, major=major)

    yield bindings
    forget()


def forget():
    for name in fake_modules():
        del sys.modules[name]


@pytest.fixture(params=[3, 4])
def dcgm(load, request):
    return load(request.param)


@pytest.fixture
def embedded(dcgm):
    """Starts an engine in this process, in virtual time: a client of it."""
    client = importlib.import_module("fakedcgm.client")
    engines = importlib.import_module("fakedcgm.engine")

    def start(**knobs):
        clock = VirtualTime()
        engine = engines.HostEngine(clock, **{"major": dcgm.major, "gpus": UUIDS[:2]} | knobs)
        client.EMBEDDED = lambda: engine
        return Client(dcgm, dcgm.agent.dcgmStartEmbedded(1), engine, clock)

    return start


@pytest.fixture
def process(tmp_path):
    """An engine as a process."""
    engine = EngineProcess(tmp_path)
    yield engine
    engine.stop()


class Client:
    """What a client does, in short."""

    def __init__(self, dcgm, handle, engine=None, clock=None):
        self.structs, self.agent, self.handle, self.engine, self.clock = dcgm.structs, dcgm.agent, handle, engine, clock
        self._made = 0
        self._callback = dcgm.agent.dcgmFieldValueEntityEnumeration_f(self._take)
        self._taken = []

    def group(self, *entities):
        self._made += 1
        group = self.agent.dcgmGroupCreate(self.handle, self.structs.DCGM_GROUP_EMPTY, f"group {self._made}")
        for entity in entities:
            self.agent.dcgmGroupAddEntity(self.handle, group, *entity)
        return group

    def fields(self, *fields):
        self._made += 1
        return self.agent.dcgmFieldGroupCreate(self.handle, fields, f"fields {self._made}")

    def watch(self, group, fields, period=0.1, keep=10.0):
        self.agent.dcgmWatchFields(self.handle, group, fields, round(period * 1e6), keep, 0)

    def latest(self, entities, fields, flags=0):
        """(entity group, entity, field, type, status, stamp, number) of each."""
        pairs = [self.structs.c_dcgmGroupEntityPair_t(*entity) for entity in entities]
        found = self.agent.dcgmEntitiesGetLatestValues(self.handle, pairs, fields, flags)
        return [(v.entityGroupId, v.entityId, v.fieldId, chr(v.fieldType), v.status, v.ts, number_of(v)) for v in found]

    def since(self, group, fields, stamp):
        """(entity group, entity, field, status, stamp, number) of each."""
        self._taken = []
        self.agent.dcgmGetValuesSince_v2(self.handle, group, fields, stamp, self._callback, None)
        return self._taken

    def _take(self, group, entity, values, count, _user):
        self._taken += [(group, entity, v.fieldId, v.status, v.ts, number_of(v)) for v in values[:count]]
        return 0

    def refused(self, function, *arguments):
        with pytest.raises(self.structs.DCGMError) as info:
            getattr(self.agent, function)(self.handle, *arguments)
        return info.value.value


def number_of(value):
    return value.value.dbl if chr(value.fieldType) == "d" else value.value.i64


def connect(dcgm, engine):
    params = dcgm.structs.c_dcgmConnectV2Params_v2()
    params.addressIsUnixSocket, params.timeoutMs = 1, 10_000
    return Client(dcgm, dcgm.agent.dcgmConnect_v2(engine.socket, params))


def in_thread(call):
    """Runs it in a thread of its own; the thread and where its answer will be."""
    answers = []

    def run():
        try:
            answers.append(call())
        except Exception as error:
            answers.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, answers


def test_structures_and_messages_have_the_real_sizes(dcgm):
    assert ctypes.sizeof(dcgm.structs.c_dcgmFieldValue_v1) == 4120
    assert dcgm.structs.dcgmFieldValue_version2 == 4128 | 2 << 24
    commands = importlib.import_module("fakedcgm.messages").COMMANDS[dcgm.major]
    versions = {number: command.version for (module, number), command in commands.items() if module == 0}
    # As asserted in NVIDIA's dcgm_core_structs.h.
    known = {
        10: 0x100021C, 12: 0x1000028, 13: 0x1000020, 15: 0x1000120, 16: 0x1000338, 25: 0x1000020, 29: 0x1000038,
        34: 0x10000A4, 36: 0x1000020, 38: 0x1000230, 50: 0x1011F24, 51: 0x1000578, 52: 0x23FE334, 54: 0x23FE048,
    }  # fmt: skip
    known |= {16: 0x2002138, 79: 0x4400000} if dcgm.major == 4 else {}
    assert {number: versions[number] for number in known} == known


def test_all_gpus_are_a_group_that_is_always_there(embedded):
    client = embedded()
    info = client.agent.dcgmGroupGetInfo(client.handle, ctypes.c_void_p(client.structs.DCGM_GROUP_ALL_GPUS))
    assert [(pair.entityGroupId, pair.entityId) for pair in info.entityList[: info.count]] == [(GPU, 0), (GPU, 1)]
    assert client.refused("dcgmGroupGetInfo", ctypes.c_void_p(77)) == -1


def test_the_latest_of_all_is_one_request_and_all_since_is_one_for_each(embedded):
    client = embedded(gpus=UUIDS)
    entities = [(GPU, number) for number in range(8)]
    group, fields = client.group(*entities), client.fields(*BASE, *PROFILED)
    client.watch(group, fields)
    client.clock.now += 1
    client.engine.calls.clear()
    assert len(client.latest(entities, BASE + PROFILED)) == 8 * 6
    assert client.engine.calls == ["latest"]
    client.engine.calls.clear()
    client.since(group, fields, 0)
    assert client.engine.calls == ["fields_info", "group_info"] + ["samples"] * 8 * 6


def test_the_latest_are_the_newest_with_their_stamps_in_an_array_of_the_callers(embedded):
    client = embedded(late=0.5)
    client.watch(client.group((GPU, 0), (GPU, 1)), client.fields(*BASE, *PROFILED))
    client.clock.now += 3
    ids = (ctypes.c_uint16 * 6)(*BASE, *PROFILED)
    pairs = (client.structs.c_dcgmGroupEntityPair_t * 2)((GPU, 0), (GPU, 1))
    values = (client.structs.c_dcgmFieldValue_v2 * 12)()
    assert client.agent.dcgmFP("dcgmEntitiesGetLatestValues")(client.handle, pairs, 2, ids, 6, 0, values) == 0
    now = client.engine.now()
    for value in values:
        known = [
            (stamp, number)
            for uuid, field, stamp, number, inserted in client.engine.log
            if (uuid, field) == (UUIDS[value.entityId], value.fieldId) and inserted <= now and stamp <= now
        ]
        assert (value.ts, number_of(value)) == max(known)
        assert value.ts < now - 1000 and value.status == 0 and value.version == client.structs.dcgmFieldValue_version2


def test_the_latest_of_what_is_not_there_says_why(embedded):
    client = embedded()
    group = client.group((GPU, 0))
    fields = client.fields(155, 203)
    four = client.engine.knobs["major"] == 4
    nothing = (DOUBLE_BLANK, INT64_BLANK) if four else (0, 0)
    kinds = "di" if four else "ii"
    asked = [(GPU, 0)], [155, 203]
    unwatched = [
        (GPU, 0, field, kind, -16, 0, value) for field, kind, value in zip(asked[1], kinds, nothing, strict=True)
    ]
    assert client.latest(*asked) == unwatched
    client.watch(group, fields)  # its first sample is stamped later than this very moment
    assert [value[4:6] for value in client.latest(*asked)] == [(-14, 0)] * 2
    client.clock.now += 1
    there = client.latest(*asked)
    assert [value[4] for value in there] == [0, 0]
    client.agent.dcgmUnwatchFields(client.handle, group, fields)
    client.clock.now += 100
    assert client.latest(*asked) == there, "what was sampled stays, also unwatched"


def test_a_live_read_keeps_no_order(embedded):
    client = embedded()
    assert [value[2] for value in client.latest([(GPU, 0)], [156, 155], flags=1)] == [155, 156]


MIG = {"mig": {UUIDS[0]: [(1, 0)]}, "gpus": UUIDS[:1], "jitter": 0.0}


@pytest.mark.parametrize("cured", [False, True])
def test_the_second_watch_of_an_instance_waits_for_the_engines_loop(embedded, cured):
    client = embedded(**MIG)
    instance = (GPU_I, 0)
    group, fields = client.group(instance), client.fields(250, 1002)

    client.watch(group, fields)
    client.clock.now += 1
    assert client.latest([instance], [250])[0][5] == pytest.approx(client.clock.now * 1e6, abs=110_000), (
        "the first at once"
    )
    client.agent.dcgmUnwatchFields(client.handle, group, fields)
    client.clock.now += 3
    begun = client.clock.now
    client.watch(group, fields)
    if cured:
        client.agent.dcgmUpdateAllFields(client.handle, 1)
    client.clock.now += 6
    stamp = client.latest([instance], [250])[0][5]
    assert stamp > begun * 1e6 if cured else stamp < begun * 1e6
    client.clock.now += 4
    assert client.latest([instance], [250])[0][5] > begun * 1e6


def test_a_gpu_is_sampled_at_once_at_every_watch(embedded):
    client = embedded()
    group, fields = client.group((GPU, 0)), client.fields(155)
    for _ in range(3):
        client.watch(group, fields)
        begun = client.clock.now
        client.clock.now += 0.05
        assert client.latest([(GPU, 0)], [155])[0][5] == pytest.approx(begun * 1e6, abs=1000)
        client.agent.dcgmUnwatchFields(client.handle, group, fields)
        client.clock.now += 3


def test_gpm_forbidden_gives_plain_blanks(embedded):
    client = embedded(hidden=True)
    client.watch(client.group((GPU, 0)), client.fields(1002, 1009, 155))
    client.clock.now += 5
    active, received, power = client.latest([(GPU, 0)], [1002, 1009, 155])
    assert (active[4], active[6]) == (0, DOUBLE_BLANK)
    assert (received[4], received[6]) == (0, INT64_BLANK)
    assert power[6] < 1000


def test_without_nvidias_module_nothing_is_paused(embedded):
    client = embedded(without_gpm=dict.fromkeys(UUIDS, -33))
    assert client.refused("dcgmProfPause") == client.refused("dcgmProfResume") == -6


def test_one_gpu_without_gpm_costs_its_group_the_profiling_fields(embedded):
    client = embedded(without_gpm={UUIDS[1]: -33})
    group, base, profiled = client.group((GPU, 0), (GPU, 1)), client.fields(*BASE), client.fields(*PROFILED)
    client.watch(group, base)
    assert client.refused("dcgmWatchFields", group, profiled, 100_000, 10.0, 0) == -33
    client.clock.now += 5
    newest = client.latest([(GPU, 0), (GPU, 1)], [155, 1002])
    now = client.clock.now * 1e6
    assert [value[5] > now - 200_000 for value in newest] == [True, False, True, False]
    alone = client.group((GPU, 0))
    client.watch(alone, profiled)
    client.clock.now += 1
    assert client.latest([(GPU, 0)], [1002])[0][6] <= 1
    assert client.refused("dcgmProfGetSupportedMetricGroups", 1) == -33


def test_there_are_only_so_many_groups(embedded):
    client = embedded()
    free = 64 if client.engine.knobs["major"] == 3 else 62
    for _ in range(free):
        client.group()
    assert client.refused("dcgmGroupCreate", 1, "one more") == -24
    for _ in range(61):
        client.fields(155)
    assert client.refused("dcgmFieldGroupCreate", [155], "one more") == -24


def test_a_lost_gpu_gives_blanks_that_are_new(embedded):
    client = embedded()
    client.watch(client.group((GPU, 0)), client.fields(155))
    client.clock.now += 1
    client.latest([(GPU, 0)], [155])
    client.engine.knobs["lost"] = UUIDS[:1]
    client.clock.now += 1
    (value,) = client.latest([(GPU, 0)], [155])
    assert (value[4], value[6]) == (0, DOUBLE_BLANK) and value[5] > (client.clock.now - 0.2) * 1e6


def test_an_engine_that_was_stopped_has_no_samples_of_that_time(embedded):
    client = embedded(jitter=0.0)
    group, fields = client.group((GPU, 0)), client.fields(155, 1002)
    client.watch(group, fields)
    client.clock.now += 1
    client.engine.be_alive()
    client.clock.now += 0.9
    client.engine.be_alive()
    client.clock.now += 20
    client.engine.be_alive()
    client.clock.now += 1
    seconds = [value[4] / 1e6 - START for value in client.since(group, fields, 0) if value[2] == 155]
    assert [s for s in seconds if 1.95 < s < 21.85] == []
    assert len([s for s in seconds if s > 21.85]) == 11
    active = [value[5] for value in client.since(group, fields, round((START + 21.85) * 1e6)) if value[2] == 1002]
    assert active[0] == DOUBLE_BLANK and all(share <= 1 for share in active[1:])


def test_what_is_kept_is_up_to_one_of_the_watchers(embedded):
    """In 3 the one that wants least, in 4.6 the one that wants most."""
    client = embedded(jitter=0.0)
    group, fields = client.group((GPU, 0)), client.fields(155)
    client.watch(group, fields, keep=75.0)
    client.clock.now += 50
    other = client.engine.group_create(99, 1, "other")
    client.engine.group_add(99, other, GPU, 0)
    client.engine.watch(99, other, client.engine.fields_create(99, [155], "other"), 100_000, 10.0, 0)
    client.clock.now += 1
    kept = len(client.since(group, fields, 0))
    assert kept == pytest.approx(100 if client.engine.knobs["major"] == 3 else 510, abs=2)


def test_a_busy_node_takes_some_samples_late_and_others_not_at_all(embedded):
    client = embedded(busy=0.5, jitter=0.0)
    group, fields = client.group((GPU, 0)), client.fields(155, 1002)
    client.watch(group, fields, keep=100.0)
    client.clock.now += 60
    taken = [(value[4], value[5]) for value in client.since(group, fields, 0) if value[2] == 1002]
    assert 0.7 * 600 < len(taken) < 0.9 * 600
    steps = [after - before for (before, _), (after, _) in pairwise(taken)]
    assert min(steps) >= 100_000 and sum(step > 300_000 for step in steps) > 5
    assert all((value == DOUBLE_BLANK) == (step > 300_000) for step, (_, value) in zip(steps, taken[1:], strict=True))


@pytest.mark.parametrize(("ours", "theirs"), [(3, 4), (4, 3)])
def test_bindings_and_an_engine_of_other_majors_agree_on_the_devices_only(load, process, ours, theirs):
    process.start(major=theirs, gpus=UUIDS[:2])
    client = connect(load(ours), process)
    assert client.agent.dcgmGetAllDevices(client.handle) == [0, 1]
    group, fields = client.group((GPU, 0)), client.fields(155)
    client.watch(group, fields)
    assert client.refused("dcgmGroupGetInfo", group) == -12
    assert client.refused("dcgmGetValuesSince_v2", group, fields, 0, client._callback, None) == -12
    if ours == 4:
        pairs = [client.structs.c_dcgmGroupEntityPair_t(GPU, 0)]
        assert client.refused("dcgmEntitiesGetLatestValues", pairs, [155], 0) == -20


def test_a_hung_engine_holds_its_callers_and_a_killed_one_lets_them_go(dcgm, process):
    process.start(major=dcgm.major)
    client = connect(dcgm, process)
    process.signal(signal.SIGSTOP)
    for go_on, answer in ((signal.SIGCONT, [0, 1]), (signal.SIGKILL, -21)):
        thread, answers = in_thread(lambda: client.agent.dcgmGetAllDevices(client.handle))
        thread.join(0.3)
        assert thread.is_alive()
        process.signal(go_on)
        thread.join(30)
        assert [getattr(answers[0], "value", answers[0])] == [answer]
        if go_on == signal.SIGCONT:
            process.signal(signal.SIGSTOP)
    assert client.refused("dcgmGetAllDevices") == -21, "for ever"
    process.start(major=dcgm.major)
    assert client.refused("dcgmGetAllDevices") == -21, "also when it is back"
    again = connect(dcgm, process)
    group, fields = again.group((GPU, 0)), again.fields(155)
    again.watch(group, fields)
    end = time.monotonic() + 30
    while again.latest([(GPU, 0)], [155])[0][4]:
        assert time.monotonic() < end
    again.agent.dcgmDisconnect(again.handle)


def test_who_waits_too_long_for_a_hung_engine_is_told(dcgm, process, monkeypatch):
    process.start(major=dcgm.major)
    client = connect(dcgm, process)
    process.set(hang=True)
    monkeypatch.setenv("FAKEDCGM_TIMEOUT_MS", "200")  # 60 s in the real library
    assert client.refused("dcgmGetAllDevices") == -11
    process.set(hang=False)
    monkeypatch.delenv("FAKEDCGM_TIMEOUT_MS")
    assert client.agent.dcgmGetAllDevices(client.handle) == [0, 1], "the answer that comes late is nobody's"


def test_requests_cost_what_they_cost(dcgm, process):
    """CPU of the calling thread: at least 0.26 ms a request, of which all-since makes one for each entity and field."""
    process.start(major=dcgm.major)
    client = connect(dcgm, process)
    entities = [(GPU, 0), (GPU, 1)]
    group, fields = client.group(*entities), client.fields(*BASE, *PROFILED)
    client.watch(group, fields)
    begun = time.thread_time()
    client.since(group, fields, 0)
    assert time.thread_time() - begun >= 12 * 0.26e-3
    begun = time.thread_time()
    client.latest(entities, BASE + PROFILED)
    assert time.thread_time() - begun >= 0.26e-3
