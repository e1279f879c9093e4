"""The backend ``nvml``, through the real nvidia-ml-py, on a driver whose values are known."""

import ctypes
import time

import pytest

from gssr.backends import nvml
from gssr.backends.base import BackendChange, BackendError
from gssr.backends.nvml import offer_nvml, open_nvml
from gssr.metrics import METRICS, PLACES

TOO_OLD, TIMES_OUT = ctypes.c_char_p(b"504,505"), ctypes.c_char_p(b"999")  # kept: the library holds on to them
PROFILING = {metric.name for metric in METRICS if metric.gpm is not None and metric.unit == "1"}


@pytest.fixture
def opened(fake_driver, monkeypatch):
    """``opened(gpus=2, ...)`` opens the backend on such GPUs; it is closed after the test."""
    backends = []

    def open_(visible=None, **settings):
        fake_driver.load(monkeypatch, **settings)
        backends.append(open_nvml(visible).backend)
        return backends[-1]

    yield open_
    for backend in backends:
        backend.close()


def value(row, name):
    return row[PLACES[name]]


def test_every_value_is_the_drivers_in_the_catalogues_unit(opened, fake_driver, stopped_time):
    backend = opened(gpus=3)
    assert backend.name == "nvml" and not PROFILING.intersection(backend.measures)
    rows = backend.sample(stopped_time.now)
    assert [row[0] for row in rows] == [0, 1, 2]
    for gpu, row in enumerate(rows):
        now = row[1]
        assert now == stopped_time.now

        def of(metric, gpu=gpu, now=now):
            return fake_driver.expected(gpu, metric, now - 1e-3, now)

        assert value(row, "power_usage") == pytest.approx(of(500), rel=5e-3)
        assert value(row, "temperature") == pytest.approx(of(501), abs=1)
        assert value(row, "memory_temperature") == pytest.approx(of(506), abs=1)
        assert value(row, "sm_clock") == pytest.approx(of(502), abs=3)
        assert value(row, "memory_used") == pytest.approx(of(503) * 2**20, rel=5e-3)
        assert value(row, "gpu_utilization") == pytest.approx(of(504) / 100, abs=0.011)
        assert value(row, "memory_copy_utilization") == pytest.approx(of(505) / 100, abs=0.011)
        assert value(row, "clock_event_reasons") == 4
        assert all(value(row, name) is None for name in PROFILING)


def test_counters_become_rates_and_energy_joules(opened, fake_driver, stopped_time):
    backend = opened(gpus=2)
    first = backend.sample(stopped_time.now)
    stopped_time.sleep(0.25)
    second = backend.sample(stopped_time.now)
    for gpu, (early, late) in enumerate(zip(first, second, strict=True)):
        span = (early[1], late[1])
        for name, metric in (
            ("pcie_tx_bytes", 20),
            ("pcie_rx_bytes", 21),
            ("nvlink_tx_bytes", 61),
            ("nvlink_rx_bytes", 60),
        ):
            assert value(early, name) is None
            assert value(late, name) == pytest.approx(fake_driver.expected(gpu, metric, *span) * 2**20, rel=0.01)
        joules = value(late, "energy") - value(early, "energy")
        assert joules == pytest.approx(fake_driver.expected(gpu, 500, *span) * (span[1] - span[0]), rel=0.01)


def test_a_narrow_pcie_counter_is_not_believed_and_the_window_costs_no_tick(opened):
    backend = opened(gpus=2, narrow_pcie=1)
    assert "pcie_tx_bytes" in backend.measures
    took = []
    for _ in range(5):
        began = time.monotonic()
        rows = backend.sample(time.time())
        took.append(time.monotonic() - began)
        assert value(rows[0], "pcie_tx_bytes") is None
    assert min(took) < 0.015
    while backend.spare():
        pass
    for row in backend.sample(time.time()):
        assert 0.3e9 < value(row, "pcie_tx_bytes") < 2e9
    assert all(value(row, "pcie_tx_bytes") is None for row in backend.sample(time.time()))  # never the same one twice


def test_what_is_not_supported_is_not_measured_and_not_asked_again(opened, fake_driver, monkeypatch):
    library = fake_driver.load(monkeypatch)
    backend = opened(gpus=2, not_supported="504,1082,1138,1139,1197,1198,507,508,509")
    lacking = {"gpu_utilization", "memory_copy_utilization", "memory_temperature", "nvlink_tx_bytes", "pcie_tx_bytes",
               "clock_event_reasons"}  # fmt: skip
    assert not lacking.intersection(backend.measures)
    assert {"power_usage", "energy", "memory_used", "temperature", "sm_clock"} <= set(backend.measures)
    backend.sample(time.time())
    refusals = library.fakenvml_refusals()
    for _ in range(5):
        (row, _other) = backend.sample(time.time())
    assert library.fakenvml_refusals() == refusals
    assert all(value(row, name) is None for name in lacking) and value(row, "power_usage") > 0


def test_a_gpu_that_supports_something_no_more_is_not_lost_for_it(opened, fake_driver, monkeypatch):
    library = fake_driver.load(monkeypatch)
    backend = opened(gpus=1)
    backend.sample(time.time())
    library.fakenvml_support_no_more(TOO_OLD)
    for _ in range(3):
        (row,) = backend.sample(time.time())
        assert value(row, "gpu_utilization") is None and value(row, "power_usage") > 10
        assert not backend.changes()


def test_what_could_not_be_read_is_missing_and_not_as_it_was(opened, fake_driver, monkeypatch):
    library = fake_driver.load(monkeypatch)
    backend = opened(gpus=1)
    (row,) = backend.sample(time.time())
    assert value(row, "power_usage") > 10 and value(row, "energy") > 0
    library.fakenvml_support_no_more(TIMES_OUT)
    (row,) = backend.sample(time.time())
    fields = ("power_usage", "energy", "memory_temperature", "nvlink_tx_bytes", "pcie_tx_bytes")
    assert [value(row, name) for name in fields] == [None] * len(fields) and value(row, "temperature") > 10
    library.fakenvml_support_no_more(None)
    (row,) = backend.sample(time.time())
    assert value(row, "power_usage") > 10


def test_older_ways_are_taken_where_the_new_ones_are_not_supported(opened):
    backend = opened(gpus=1, not_supported="1186,1083,507")
    (row,) = backend.sample(time.time())
    assert value(row, "power_usage") > 100 and value(row, "energy") > 1e9 and value(row, "clock_event_reasons") == 4


def test_a_utilization_above_100_is_none(opened):
    (row,) = opened(gpus=1, set="504:250").sample(time.time())
    assert value(row, "gpu_utilization") is None and value(row, "memory_copy_utilization") is not None


def test_devices_are_described(opened):
    backend = opened(gpus=2)
    first, second = backend.gpus
    assert first.uuid != second.uuid and (first.device_index, second.device_index) == (0, 1)
    assert (first.memory_total, first.power_limit, first.max_sm_clock) == (81559 << 20, 700.0, 1980)
    assert (first.sm_count, first.compute_capability, first.mig) == (132, "9.0", None)


def test_mig_instances_are_rows_with_what_is_their_own(opened):
    backend = opened(gpus=2, mig="1:3")
    assert [(gpu.device_index, gpu.mig) for gpu in backend.gpus] == [
        (0, None), (1, "1g.10gb (instance 7)"), (1, "1g.10gb (instance 8)"), (1, "1g.10gb (instance 9)"),
    ]  # fmt: skip
    assert len({gpu.uuid for gpu in backend.gpus}) == 4
    assert backend.gpus[1].memory_total < backend.gpus[0].memory_total
    rows = backend.sample(time.time())
    assert value(rows[0], "power_usage") is not None
    for row in rows[1:]:
        assert value(row, "memory_used") > 0
        assert value(row, "power_usage") is None and value(row, "energy") is None  # the whole GPU's, not its


def test_a_lost_gpu_is_said_once_and_the_others_go_on(opened, tmp_path):
    command = tmp_path / "command"
    backend = opened(gpus=3, command=command)
    assert len(backend.sample(time.time())) == 3 and backend.changes() == []
    command.write_text("lose 1")
    for _ in range(3):
        assert [row[0] for row in backend.sample(time.time())] == [0, 2]
    ((kind, gpu, message),) = backend.changes()
    assert (kind, gpu) == ("gpu_lost", 1) and "GPU is lost" in message


@pytest.mark.parametrize("sticky", [0, 1])
def test_a_gpu_that_is_back_is_sampled_again(opened, tmp_path, stopped_time, sticky):
    """``sticky``: only for a library that is started anew, as after a reset."""
    command = tmp_path / "command"
    backend = opened(gpus=2, command=command, lost_sticky=sticky)
    kinds, counts = [], []
    for second in range(100):
        if second in (2, 4):
            command.write_text("lose 0" if second == 2 else "")
        counts.append(len(backend.sample(stopped_time.now)))
        changes = [change for change in backend.changes() if isinstance(change, BackendChange)]
        kinds += [(change.kind, change.gpu) for change in changes if change.kind != "xid"]
        stopped_time.sleep(1.0)
    assert kinds == [("gpu_lost", 0), ("gpu_back", 0)]
    away = nvml.START_ANEW if sticky else nvml.LOOK_AGAIN
    assert counts[:2] == [2, 2] and counts.count(1) == pytest.approx(away, abs=1) and 0 not in counts
    assert value(backend.sample(stopped_time.now)[0], "nvlink_tx_bytes") > 0


def test_a_launchers_gpus_are_chosen(opened):
    assert [gpu.device_index for gpu in opened(("1", "3"), gpus=4).gpus] == [1, 3]


def test_no_gpu_for_this_process_is_a_sentence(opened):
    with pytest.raises(BackendError, match=r"no GPU.*ask for GPUs"):
        opened((), gpus=4)


def test_the_offer_names_the_gpus(fake_driver, monkeypatch):
    fake_driver.load(monkeypatch, gpus=8)
    offer = offer_nvml()
    assert offer.works and offer.details == "8 GPUs (NVIDIA H100 FAKE), driver 550.54.15"
