"""Why a job does not saturate its GPUs: rules held as data, judged on the evidence of a recording."""

from gssr.model.verdicts.engine import judge as judge
from gssr.model.verdicts.engine import judge_window as judge_window
