"""Which metrics of two runs are compared."""

from gssr.model.compare.compared_metrics import METRICS, measured_metrics


def test_what_neither_run_has_is_not_compared_and_what_says_less_of_the_same_stands_in_alone() -> None:
    assert measured_metrics({}, {"sm_active": None}) == ()
    assert measured_metrics({"dram_active": 0.3}, {"sm_active": 0.2}) == ("sm_active", "dram_active")
    assert measured_metrics({"gpu_utilization": 0.5}) == ("gpu_utilization",)
    assert measured_metrics({"gpu_utilization": 0.5, "gr_engine_active": 0.4}) == ("gr_engine_active",)
    assert set(measured_metrics(dict.fromkeys(METRICS, 1.0))) == set(METRICS) - {"gpu_utilization"}
