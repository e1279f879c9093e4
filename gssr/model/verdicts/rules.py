"""The rules: what each looks for, from which numbers on, what it says and what to do, and where its numbers come from.

The order matters: causes come before what they explain. The conditions are in the modules beside this one, under the same
codes. A site may change every number, severity and advice (gssr.model.verdicts.site).
"""

from gssr.model.verdicts import gpu_rules, time_rules, work_rules
from gssr.model.verdicts.table import JOBSTATS, KEMPNER, Rule, Table, Threshold

COMMON = Rule(
    "common", "info", "",
    (
        Threshold("idle", 0.02, "below it a GPU does nothing (SM active, or the nearest to it that was measured)"),
        Threshold("working", 0.5, "above this share of the working level a job works; below it, it waits"),
        Threshold("low", 0.3, "below this SM activity a job waits whatever its working level is", KEMPNER),
        Threshold("gaps", 0.6, "where the engine's activity at work is below this a job waits at work, too"),
        Threshold("still", 0.02, "where DRAM and the arithmetic pipes are less active than this the SMs only spin"),
        Threshold("unused", 0.02, "a GPU that does something in less than this share of the time is unused", JOBSTATS),
        Threshold("paused", 0.25, "below this share of the working level a job pauses"),
        Threshold("explained", 0.8, "a symptom is explained by a cause that holds in this share of its time"),
    ),
    "", (),
)  # fmt: skip

TABLE = Table(COMMON, (*gpu_rules.RULES, *time_rules.RULES, *work_rules.RULES))
