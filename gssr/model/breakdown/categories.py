"""The categories of GPU time: one table that rules, pages, screens and docs read."""

from typing import NamedTuple


class TimeCategory(NamedTuple):
    """One place where GPU time can go.

    ``name``: in JSON, a branch and a leaf. ``short``: one word for a narrow column. ``label``: what the GPU does then, in a
    list. ``lost_to``: the same at the end of "25 % is ...". ``is_loss``: whether the GPU could have worked then.
    ``ordinary``: the share that healthy jobs have too; a loss above it is warned about. ``source``: where that share comes
    from.
    """

    name: str
    short: str
    label: str
    lost_to: str
    is_loss: bool
    ordinary: float = 0.05
    source: str = ""

    @property
    def branch(self) -> str:
        """Its top-level category: "idle" of "idle.copies"."""
        return self.name.partition(".")[0]


CATEGORIES: tuple[TimeCategory, ...] = (
    TimeCategory("working.tensor", "tensor", "computes on tensor cores", "computing on tensor cores", False),
    TimeCategory("working.fp64", "FP64", "computes in FP64", "computing in FP64", False),
    TimeCategory("working.memory", "memory", "limited by memory bandwidth", "work limited by memory bandwidth", False),
    TimeCategory("working.other", "works", "other work", "other work", False),
    TimeCategory(
        "working.few_sms", "few SMs", "runs kernels too small for a GPU", "spent in kernels too small for a GPU", True
    ),
    TimeCategory("working.slowed", "low clocks", "lost to lower clocks", "lost to lower clocks", True),
    TimeCategory(
        "communication.transferring", "transfers", "moves data to other GPUs", "spent on communication alone", True,
        0.16,
        "simulated healthy jobs of several authors spend up to 15 % on it: Fourier transforms, mixtures of experts",
    ),
    TimeCategory("communication.waiting", "waits", "waits in communication kernels", "spent waiting in communication", True),
    TimeCategory(
        "idle.between_kernels", "gaps", "idle between kernels", "idle between kernels", True, 0.16,
        "healthy jobs idle so: fluid dynamics 10 %, molecular dynamics 6 %, serving 14-16 %",
    ),
    TimeCategory("idle.imbalance", "others work", "idle while other GPUs work", "idle while other GPUs work", True),
    TimeCategory(
        "idle.input_output", "files", "waits for files or the network", "spent waiting for files or the network", True
    ),
    TimeCategory("idle.copies", "copies", "waits for copies to or from the host", "spent waiting for copies", True),
    TimeCategory("idle.host", "CPU", "waits for the CPU", "spent waiting for the CPU", True),
    TimeCategory(
        "idle.unexplained", "idle", "idle, no cause found", "lost, no cause found", True, 0.16,
        "a healthy server of bursts of requests idles 14-16 %",
    ),
    TimeCategory("startup", "before work", "before the first work", "before the first work", False),
    TimeCategory("end", "after work", "after the last work", "after the last work", False),
    TimeCategory("unused", "unused", "GPUs that did nothing", "time of GPUs that did nothing", True),
    TimeCategory("unmeasured", "not measured", "not measured", "not measured", False),
)  # fmt: skip
"""In the order in which bars are drawn: work first, then what is lost, then what lies outside the job's work."""

UNKNOWN_WORK = "works, kind of work not measured"
"""What other work is called where nothing tells one kind of work from another: kernels run, whatever they do."""
POSITIONS = {category.name: position for position, category in enumerate(CATEGORIES)}
BRANCHES = tuple(dict.fromkeys(category.branch for category in CATEGORIES))
