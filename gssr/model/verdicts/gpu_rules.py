"""The rules about GPUs: whether they are used, how healthy they are, and how they differ (gssr.model.verdicts.rules)."""

from gssr.model.verdicts.table import CSCS, KEMPNER, LEAD, NVML, TRACEML, Rule, Threshold

RULES: tuple[Rule, ...] = (
    Rule(
        "gpus_unused", "critical", "{some} {were} {ever} used",
        (
            Threshold("seconds", 20.0, "a GPU is unused (as above) in a job of at least so many seconds"),
        ),
        "Ask for fewer GPUs, or let the program use all it gets: check the ranks per node, CUDA_VISIBLE_DEVICES and the "
        "launcher's GPU binding.",
        (LEAD,),
        ("imbalance", "straggler", "rotating_stragglers", "memory_unused", "low_use", "tear_down", "start_up"),
    ),
    Rule(
        "hang", "critical", "Nothing has happened for the last {idle}: the job looks hung",
        (
            Threshold("seconds", 120.0, "all GPUs are idle at the end for at least so long, and the job has not completed"),
            Threshold("longest", 2.0, "that is so many times the longest pause before"),
        ),
        "Look at the last lines of its output and at one process of it (py-spy dump, gdb): a rank that died or a collective "
        "that not all ranks entered. Stop the job if it does not go on.",
        (LEAD,),
        ("tear_down", "pauses", "slow_down", "low_use", "early_end", "cpu_starved"),
    ),
    Rule(
        "start_up", "info", "The first {idle} ({share} of the time) went by before the GPUs worked",
        (
            Threshold("share", 0.05, "at least this share of the time passes before the GPUs work"),
            Threshold("seconds", 5.0, "and at least so many seconds"),
            Threshold("warning", 0.2, "from this share on it is a warning"),
            Threshold("critical", 0.5, "from this share on it is critical", CSCS),
        ),
        "Stage data and environments to node-local storage, cache compiled kernels, and do preparation that needs no GPU in "
        "a job of its own.",
        (LEAD,),
        ("low_use",),
    ),
    Rule(
        "tear_down", "info", "The GPUs did nothing in the last {idle} ({share} of the time)",
        (
            Threshold("share", 0.05, "the GPUs do nothing in at least this share of the time, at its end"),
            Threshold("seconds", 5.0, "and for at least so many seconds"),
            Threshold("warning", 0.2, "from this share on it is a warning"),
            Threshold("critical", 0.5, "from this share on it is critical"),
        ),
        "Let the job end when its work is done; move what needs no GPU (output, evaluation on the CPU) to a job of its own.",
        (LEAD,),
        ("low_use",),
    ),
    Rule(
        "late_start", "warning", "{some} began to work {late} after the others",
        (
            Threshold("share", 0.05, "a GPU begins later than the first quarter of them by at least this share of the time"),
            Threshold("seconds", 5.0, "and by at least so many seconds"),
        ),
        "See what these nodes did meanwhile: a slow file system, an image being pulled, a rank waiting for its data.",
        (LEAD,),
    ),
    Rule(
        "early_end", "warning", "{some} stopped working {early} before the others",
        (
            Threshold("share", 0.05, "a GPU stops earlier than the last quarter of them by at least this share of the time"),
            Threshold("seconds", 5.0, "and by at least so many seconds"),
        ),
        "Look for a rank that died, or share the work out in smaller pieces so that all end together.",
        (LEAD,),
    ),
    Rule(
        "throttled_thermal", "warning", "{some} {were} slowed down by heat",
        (
            Threshold("share", 0.05, "heat lowers the clock (by hardware or driver) in at least this share of samples,"),
            Threshold("celsius", 95.0, "or the GPU is so hot in at least this share of the time,", KEMPNER),
            Threshold("celsius_a100", 93.0, "or, if it is an A100, so hot", KEMPNER),
            Threshold("critical", 0.5, "from this share on it is critical"),
        ),
        "Tell the operators which node it is (cooling, dust, a failed fan), and leave it out until then.",
        (("hw_thermal", "sw_thermal", "temperature"),),
        ("throttled_hardware", "slow_clock"),
    ),
    Rule(
        "throttled_power_brake", "critical", "{some} {were} slowed down by the power brake",
        (Threshold("share", 0.05, "the external power brake is on in at least this share of samples", NVML),),
        "Tell the operators: the node's power supply asks the GPUs to slow down.",
        (("power_brake",),),
        ("throttled_hardware", "slow_clock"),
    ),
    Rule(
        "throttled_hardware", "critical", "{some} {were} slowed down by their hardware",
        (Threshold("share", 0.05, "the hardware lowers the clock in at least this share of samples", NVML),),
        "Tell the operators: heat, the power brake or the power supply; nvidia-smi -q -d PERFORMANCE says which.",
        (("hw_slowdown",),),
        ("slow_clock",),
    ),
    Rule(
        "power_capped", "info", "{some} {were} held down by the power limit",
        (
            Threshold("share", 0.2, "the power limit holds the clock down in at least this share of samples"),
            Threshold("clock", 0.7, "it is a warning where the SM clock is below this share of the highest"),
        ),
        "A busy GPU at its limit is doing what it can. If the limit is lower than its model's, ask whether that is meant.",
        (("sw_power_cap",),),
        ("slow_clock",),
    ),
    Rule(
        "slow_node", "warning", "{node} is slower than the others: {why}",
        (
            Threshold("clock", 0.95, "the SM clock of a node, at work, is below this share of the median node's"),
            Threshold("hotter", 8.0, "it is the temperature where that is above the median node's by so many °C"),
            Threshold("flag", 0.05, "it is a clock event reason that is set so much more than on the others, in samples"),
            Threshold("critical", 0.2, "from this loss of clock on it is critical"),
        ),
        "Leave the node out (--exclude) and tell the operators: every other GPU of a synchronous job waits for it.",
        (("sm_clock",), LEAD),
        ("straggler", "imbalance", "slow_clock", "rotating_stragglers"),
    ),
    Rule(
        "slow_clock", "warning", "{some} ran at a slower clock, and no reason recorded",
        (
            Threshold("clock", 0.9, "the SM clock, at work, is below this share of the median GPU's"),
        ),
        "Compare nvidia-smi -q -d CLOCK on this node with another: application clocks may have been left set.",
        (("sm_clock",), LEAD),
        ("straggler", "imbalance"),
    ),
    Rule(
        "straggler", "warning", "{some} did {ratio} of what the others did{so}",
        (
            Threshold(
                "ratio", 0.9, "an outlier that does less than this share of the median GPU, or that one of it", least=0.01
            ),
            Threshold("most", 0.25, "no more than this share of the GPUs is one"),
            Threshold("critical", 0.5, "from this loss against the median GPU on it is critical"),
        ),
        "See whether this rank has less work, a busy neighbour on its node or a bad link; run once without the node.",
        (LEAD,),
        ("imbalance",),
    ),
    Rule(
        "imbalance", "warning", "The GPUs are not equally busy: {lost} of their time is lost to it",
        (
            Threshold("warning", 0.1, "1 - mean/max of the GPUs' time means is at least this", TRACEML),
            Threshold("critical", 0.2, "from this on it is critical", TRACEML),
        ),
        "Share the work out evenly (domain decomposition, batch sizes, sequence lengths); see which GPUs do most in "
        "gssr analyze -plb.",
        (LEAD,),
    ),
    Rule(
        "rotating_stragglers", "warning", "At {any} of the time some GPU lags behind, each in its turn",
        (
            Threshold("seconds", 5.0, "looked at in columns of at least so many seconds"),
            Threshold("behind", 0.8, "a GPU is behind below this share of the median GPU"),
            Threshold("any", 0.3, "some GPU is behind in at least this share of the columns"),
            Threshold("same", 0.5, "the one that is behind most often has less than this share of these"),
            Threshold("at_once", 0.34, "no more than this share of the GPUs is behind at once"),
        ),
        "In a synchronous job all wait for the slowest at each step: look for uneven batches, data loading or a shared "
        "file system that hits one rank at a time.",
        (LEAD,),
        ("low_use",),
    ),
)  # fmt: skip
