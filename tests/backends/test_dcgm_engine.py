"""The DCGM backend and a hostengine that is killed, restarted, hung or not there: in real time, on real processes."""

import shutil
import signal
import sys
import time
from itertools import pairwise

import pytest
from dcgm_bench import FAKE, UUIDS, EngineProcess, bindings_folder, fake_modules, messages, values_of

from gssr.backends import check, driver, select_gpus
from gssr.backends.base import BackendError, UnusableError
from gssr.backends.dcgm import offer, open_dcgm
from gssr.metrics import BY_NAME, PLACES
from tests.waiting import until


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch):
    def no_driver():
        raise UnusableError("no driver", "none is needed")

    monkeypatch.setattr(driver, "start", no_driver)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr("gssr.backends.dcgm.bindings.FOLDERS", ("/nonexistent/dcgm",))
    monkeypatch.delenv("DCGM_BINDINGS", raising=False)
    monkeypatch.delenv("DCGM_HOST", raising=False)
    yield
    for name in fake_modules():
        del sys.modules[name]


@pytest.fixture
def engine(tmp_path, monkeypatch):
    engine = EngineProcess(tmp_path)
    for name, value in engine.environ.items():
        monkeypatch.setenv(name, value)
    yield engine
    engine.stop()


class Run:
    """A sampler's life with a backend: rows and changes collected, and the longest a call took."""

    def __init__(self, backend):
        self.backend = backend
        self.rows, self.changes = [], []
        self.longest = 0.0

    def tick(self):
        begin = time.monotonic()
        self.rows += self.backend.sample(time.time())
        self.longest = max(self.longest, time.monotonic() - begin)
        self.changes += self.backend.changes()

    def until(self, condition):
        until(lambda: (self.tick(), condition())[1])

    def close(self):
        begin = time.monotonic()
        self.rows += self.backend.close()
        return time.monotonic() - begin

    def said(self, kind):
        return messages(self.changes, kind)


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr("gssr.backends.dcgm.dcgm_backend.RETRY_SECONDS", 0.2)
    monkeypatch.setattr("gssr.backends.dcgm.session.POLL_SECONDS", 0.2)


@pytest.mark.usefixtures("impatient")
def test_an_engine_restarted_with_other_ids_gives_the_same_gpus_their_own_data(engine):
    engine.start(gpus=["GPU-a", "GPU-b", "GPU-c"])
    run = Run(open_dcgm("dcgm", None, 0.1))
    run.until(lambda: len(run.rows) > 15)
    engine.signal(signal.SIGKILL)
    run.until(lambda: run.said("backend_lost"))
    lost_at = time.time()
    time.sleep(0.5)
    back_at = time.time()
    engine.start(gpus=["GPU-c", "GPU-a", "GPU-x", "GPU-b"])
    before = len(run.rows)
    run.until(lambda: run.said("backend_back"))
    run.until(lambda: len(run.rows) > before + 60)
    run.close()
    assert len(run.said("backend_lost")) == len(run.said("backend_back")) == 1
    assert "tried again" in run.said("backend_lost")[0]
    assert not [row for row in run.rows if lost_at + 0.1 < row[1] < back_at - 0.1], "a gap"
    logged = engine.logged()
    for position, device in enumerate(run.backend.gpus):
        theirs = {
            value for uuid, field, _, value, _ in logged if uuid == device.uuid and field == BY_NAME["sm_active"].dcgm
        }
        mine = values_of(run.rows, position, "sm_active")
        assert set(mine) <= theirs and len(mine) == len(set(mine)) > 15


@pytest.mark.usefixtures("impatient")
def test_a_hung_engine_is_left_behind_and_holds_up_nobody(engine, monkeypatch):
    monkeypatch.setattr("gssr.backends.dcgm.dcgm_backend.HANG_SECONDS", 0.5)
    engine.start()
    run = Run(open_dcgm("dcgm", None, 0.1))
    run.until(lambda: len(run.rows) > 10)
    engine.signal(signal.SIGSTOP)
    run.until(lambda: run.said("backend_lost"))
    assert "has not answered for 0.5 s" in run.said("backend_lost")[0]
    end = time.monotonic() + 1.5
    run.until(lambda: time.monotonic() > end)
    engine.signal(signal.SIGCONT)
    before = len(run.rows)
    run.until(lambda: run.said("backend_back") and len(run.rows) > before + 20)
    assert run.longest < 10
    assert len(run.said("backend_lost")) >= 1
    assert run.close() < 30
    mine = values_of(run.rows, 0, "sm_active")
    assert len(mine) == len(set(mine)), "nothing twice"


@pytest.mark.usefixtures("impatient")
def test_a_slow_engine_is_a_gap_and_no_lost_gpu(engine):
    """Stopped for less than what counts as hung: once 7 of 8 GPUs were said to be broken."""
    engine.start(gpus=UUIDS)
    run = Run(open_dcgm("dcgm", None, 0.1))
    run.until(lambda: len(run.rows) > 80)
    engine.signal(signal.SIGSTOP)
    end = time.monotonic() + 3.6
    run.until(lambda: time.monotonic() > end)
    engine.signal(signal.SIGCONT)
    before = len(run.rows)
    run.until(lambda: len(run.rows) > before + 80)
    run.close()
    assert not run.said("gpu_lost")
    assert run.said("gap") or run.said("backend_lost")
    assert all("to answer" in line for line in run.said("gap"))
    mine = values_of(run.rows, 0, "sm_active")
    assert len(mine) == len(set(mine)), "nothing twice"


@pytest.mark.usefixtures("impatient")
def test_dropped_watches_are_set_again(engine):
    engine.start()
    run = Run(open_dcgm("dcgm", None, 0.1))
    run.until(lambda: len(run.rows) > 10)
    engine.set(unwatch=True)
    run.until(lambda: run.said("backend_lost"))
    engine.set(unwatch=False)
    before = len(values_of(run.rows, 0, "sm_active"))
    run.until(lambda: run.said("backend_back") and len(values_of(run.rows, 0, "sm_active")) > before + 10)
    run.close()
    assert "does not watch any more" in run.said("backend_lost")[0]


@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL])
def test_what_an_engine_did_not_tell_at_the_end_is_a_gap_and_said(engine, how):
    """It is not waited for, and not noticed before the end."""
    engine.start()
    run = Run(open_dcgm("dcgm", None, 0.1))
    run.until(lambda: len(run.rows) > 5)
    engine.signal(how)
    until(lambda: time.time() - run.rows[-1][1] > 1.0)  # nobody collects meanwhile
    ended = time.time()
    took = run.close()
    assert took < 2.0, "3 s and more were waited"
    run.changes += run.backend.changes()
    assert len(run.said("backend_lost")) == 1
    for gpu in range(2):
        *_, before, last = [row for row in run.rows if row[0] == gpu]
        assert ended <= last[1] < ended + took + 0.1 and set(last[2:]) == {None}, "up to the end nothing is known"
        assert last[1] - before[1] > 0.9 and set(before[2:]) != {None}


def test_an_engine_that_hangs_only_now_is_no_gap(engine):
    engine.start()
    run = Run(open_dcgm("dcgm", None, 1.0))
    run.until(lambda: run.rows)
    engine.signal(signal.SIGSTOP)
    run.close()
    assert all(set(row[2:]) != {None} for row in run.rows), "less than 2.5 intervals are missing"


@pytest.mark.usefixtures("impatient")
def test_threads_stuck_in_a_hung_engine_are_few(engine, monkeypatch):
    import threading

    monkeypatch.setattr("gssr.backends.dcgm.dcgm_backend.HANG_SECONDS", 0.1)
    engine.start()
    run = Run(open_dcgm("dcgm", None, 0.1))
    engine.signal(signal.SIGSTOP)
    end = time.monotonic() + 3
    run.until(lambda: time.monotonic() > end)
    assert sum(thread.name == "dcgm" for thread in threading.enumerate()) <= 5
    engine.signal(signal.SIGCONT)
    run.until(lambda: run.said("backend_back"))


def test_a_connection_is_tried_again_as_often_after_a_long_outage(engine):
    """Data is back soon, however long nothing listened; and no second engine is started in the place of the lost one."""
    engine.start()
    backend = open_dcgm("dcgm", None, 0.1)
    run, tries = Run(backend), []
    opening = backend._open

    def noted():
        tries.append(time.monotonic())
        assert not backend._embeds
        return opening()

    backend._open = noted
    engine.signal(signal.SIGKILL)
    run.until(lambda: len(tries) >= 6)
    steps = sorted(after - before for before, after in pairwise(tries))
    assert steps[len(steps) // 2] < 1.5, "it was 2 s, then 4, 8 ... up to a minute"
    run.close()


def test_an_engine_that_hangs_at_the_start_is_said(engine, monkeypatch):
    monkeypatch.setattr("gssr.backends.dcgm.dcgm_backend.OPEN_SECONDS", 0.5)
    engine.start()
    engine.signal(signal.SIGSTOP)
    with pytest.raises(BackendError, match=r"doesn't answer .*restart nv-hostengine"):
        open_dcgm("dcgm", None, 0.1)


def test_the_end_of_a_run_is_not_lost(engine, monkeypatch):
    """Reading is done once a second; what is left comes with the closing, however late an engine answers."""
    monkeypatch.setattr("gssr.backends.run_end.LAST_ANSWER_SECONDS", 10.0)
    engine.start()
    run = Run(open_dcgm("dcgm", None, 0.1))
    until(lambda: len(engine.logged()) > 100)
    before = max(stamp for _, _, stamp, _, _ in engine.logged()) / 1e6
    run.close()
    assert run.rows[-1][1] > before - 0.11


def test_an_interval_that_is_too_short_is_lengthened_and_said(engine):
    engine.start()
    run = Run(open_dcgm("dcgm", None, 0.02))
    run.tick()
    assert run.backend.interval == 0.1
    assert run.said("backend") == [
        "dcgm: samples are taken every 100 ms, not every 20 ms: faster ones have no profiling metrics"
    ]
    run.until(lambda: values_of(run.rows, 0, "sm_active"))
    run.close()


def test_the_launchers_gpus_are_taken_by_uuid_and_prefix(engine):
    engine.start(gpus=UUIDS[:4])
    backend = open_dcgm("dcgm", ["GPU-c", "GPU-a"], 0.1)
    assert [gpu.uuid for gpu in backend.gpus] == ["GPU-a", "GPU-c"]
    backend.close()


def test_the_drivers_view_decides_which_gpus_are_ours(monkeypatch):
    """In a device cgroup the driver shows two GPUs and numbers them anew; DCGM sees eight."""
    from gssr.backends.base import Device
    from gssr.backends.dcgm.entities import Sampled, choose_mine

    found = [Sampled(Device(index, uuid), uuid, index, (1, index), uuid) for index, uuid in enumerate(UUIDS)]
    seen = [driver.DriverGpu(Device(index, uuid, sm_count=132), uuid, None, None, None)
            for index, uuid in enumerate(["GPU-e", "GPU-f"])]  # fmt: skip
    monkeypatch.setattr(driver, "start", lambda: None)
    monkeypatch.setattr(driver, "stop", lambda: None)
    monkeypatch.setattr(driver, "gpus", lambda: (seen, []))
    mine, remarks = choose_mine(found, ["0", "1"])
    assert [each.device.uuid for each in mine] == ["GPU-e", "GPU-f"] and not remarks
    assert [each.gpu for each in mine] == [4, 5], "DCGM is asked by its own ids"
    assert mine[0].device.sm_count == 132
    with pytest.raises(BackendError, match=r"none of this process's GPUs .*DCGM_HOST"):
        choose_mine(found[:4], ["0", "1"])


def test_selected_gpus_keep_their_rows(engine):
    engine.start(gpus=UUIDS[:3])
    run = Run(select_gpus(open_dcgm("dcgm", None, 0.1), "GPU-c"))
    run.until(lambda: len(values_of(run.rows, 0, "sm_active")) >= 2)
    run.close()
    assert {row[0] for row in run.rows} == {0}
    theirs = {value for uuid, field, _, value, _ in engine.logged() if uuid == "GPU-c" and field == 1002}
    assert set(values_of(run.rows, 0, "sm_active")) <= theirs


def refusal():
    with pytest.raises(BackendError) as raised:
        open_dcgm("dcgm", None, 0.5)
    text = str(raised.value)
    assert "\n" not in text
    return text


def test_without_bindings_it_is_said_where_they_were_looked_for():
    assert "PYTHONPATH" in refusal() and "/nonexistent/dcgm" in refusal() and "DCGM_BINDINGS" in refusal()
    assert not offer().works and "set DCGM_BINDINGS" in offer().cure


def test_bindings_named_wrongly_are_said(monkeypatch, tmp_path):
    monkeypatch.setenv("DCGM_BINDINGS", str(tmp_path))
    assert f"DCGM_BINDINGS={tmp_path} holds no dcgm_agent.py" in refusal()


def test_bindings_in_pythonpath_are_found(engine, monkeypatch):
    engine.start()
    monkeypatch.delenv("DCGM_BINDINGS")
    monkeypatch.syspath_prepend(bindings_folder(4))
    open_dcgm("dcgm", None, 0.5).close()


def test_a_missing_library_is_said(monkeypatch):
    monkeypatch.setenv("DCGM_BINDINGS", bindings_folder(4))
    monkeypatch.setenv("FAKEDCGM_NO_LIBRARY", "1")
    assert "libdcgm.so is missing" in refusal() and "LD_LIBRARY_PATH" in refusal()


def test_without_an_engine_and_a_driver_it_is_said(monkeypatch):
    monkeypatch.setenv("DCGM_BINDINGS", bindings_folder(4))
    monkeypatch.setattr("gssr.backends.dcgm.engine.PORT", 1)
    assert "no hostengine answers" in refusal() and "libnvidia-ml" in refusal()
    assert (offer().works, offer().details) == (False, "no hostengine answers on 127.0.0.1:1")
    assert "nv-hostengine" in offer().cure


@pytest.mark.usefixtures("engine")
def test_an_engine_that_was_named_and_is_not_there_is_never_replaced_by_another():
    assert "no hostengine answers on unix://" in refusal() and "DCGM_HOST" in refusal()


@pytest.mark.parametrize(("major", "theirs"), [(3, "4.6.0"), (4, "3.3.9")])
def test_an_engine_of_another_major_version_is_named(engine, monkeypatch, major, theirs):
    """dcgmGetAllDevices, which is all that was asked once, answers all the same."""
    monkeypatch.setenv("DCGM_BINDINGS", bindings_folder(major))
    engine.start(major=7 - major)
    assert "one major version" in refusal() and f"is of DCGM {theirs}" in refusal()
    assert not offer().works and f"is of DCGM {theirs}" in offer().details and "DCGM_BINDINGS" in offer().cure


@pytest.mark.parametrize("major", [3, 4])
def test_where_both_majors_are_installed_the_bindings_that_fit_are_taken(engine, monkeypatch, tmp_path, major):
    folders = []
    for installed in (4, 3):  # each with all of its modules, as NVIDIA's
        folder = tmp_path / f"dcgm{installed}" / "python3"
        shutil.copytree(bindings_folder(installed), folder)
        shutil.copytree(FAKE / "fakedcgm", folder / "fakedcgm")
        (folder / "library").symlink_to(FAKE / "library")
        folders.append(str(folder))
    monkeypatch.delenv("DCGM_BINDINGS")
    monkeypatch.setattr("gssr.backends.dcgm.bindings.FOLDERS", folders)
    engine.start(major=major)
    assert offer().works
    run = Run(open_dcgm("dcgm", None, 0.1))
    run.until(lambda: values_of(run.rows, 0, "sm_active"))
    run.close()


def test_what_is_no_engine_is_said(monkeypatch):
    import socket

    monkeypatch.setenv("DCGM_BINDINGS", bindings_folder(4))
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setenv("DCGM_HOST", f"127.0.0.1:{port}")
        monkeypatch.setattr("gssr.backends.dcgm.dcgm_backend.OPEN_SECONDS", 0.5)
        assert "doesn't answer" in refusal()


def test_an_engine_that_answers_is_offered_with_its_gpus(engine):
    engine.start(gpus=UUIDS)
    assert offer().works and offer().details.startswith("8 GPUs at the hostengine on unix://")


def test_a_socket_of_roots_is_said(engine, monkeypatch):
    engine.start()
    monkeypatch.setattr("gssr.backends.dcgm.engine.probe", lambda _: "forbidden")
    assert "may not open" in refusal() and "TCP port" in refusal()


@pytest.mark.usefixtures("engine")
def test_beside_others_no_engine_is_started(monkeypatch):
    monkeypatch.delenv("DCGM_HOST")
    monkeypatch.setattr("gssr.backends.dcgm.engine.PORT", 1)  # where nothing listens
    monkeypatch.setattr("gssr.backends.dcgm.engine._embed", lambda *_: pytest.fail("an engine was started"))
    with pytest.raises(BackendError, match="no hostengine answers"):
        open_dcgm("dcgm:beside", None, 0.1)


def test_only_pause_can_be_asked_for():
    check("dcgm")
    check("dcgm:beside")
    check("auto:beside")
    check("dcgm:pause")
    with pytest.raises(BackendError, match="dcgm:pause"):
        check("dcgm:fast")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", "127.0.0.1:5555"), ("node1", "node1:5555"), ("node1:77", "node1:77"), ("unix:///run/x", "unix:///run/x"),
        ("::1", "[::1]:5555"), ("[::1]:77", "[::1]:77"),
    ],
)  # fmt: skip
def test_dcgm_host_takes_what_nvidias_tools_take(text, shown):
    from gssr.backends.dcgm.engine import address_of

    assert str(address_of({"DCGM_HOST": text})) == shown


@pytest.mark.parametrize("text", ["127.0.0.1:55x5", "node1:²", "x:65536", "node1:", "[::1]:x", "node1:" + "9" * 5000])
def test_dcgm_host_with_a_port_that_is_none_is_refused_as_it_was_typed(monkeypatch, text):
    monkeypatch.setenv("DCGM_HOST", text)
    monkeypatch.setenv("DCGM_BINDINGS", bindings_folder(4))
    assert f"DCGM_HOST={text} " in refusal() and "no port" in refusal()
    assert (offer().works, offer().details) == (False, f"DCGM_HOST={text} ends in no port")


@pytest.mark.parametrize("text", ["é" * 300, "a..b", "unix://" + "x" * 300])
def test_dcgm_host_that_can_be_no_address_is_a_host_that_is_silent(text):
    from gssr.backends.dcgm.engine import address_of, probe

    assert probe(address_of({"DCGM_HOST": text})) == "silent"


def test_an_engine_with_as_many_clients_waiting_as_it_lets_wait_listens(tmp_path):
    import socket

    from gssr.backends.dcgm.engine import address_of, probe

    path = str(tmp_path / "dcgm.sock")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen(0)
        assert [probe(address_of({"DCGM_HOST": f"unix://{path}"})) for _ in range(3)] == ["listens"] * 3


def test_missing_is_none_in_every_row(engine):
    engine.start(profiling=-37)
    run = Run(open_dcgm("dcgm", None, 0.1))
    time.sleep(0.5)
    run.tick()
    run.close()
    assert all(row[PLACES["sm_active"]] is None for row in run.rows) and run.rows
    assert any("end the other profiler" in line for line in run.said("backend"))
