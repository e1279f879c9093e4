"""What the user can do, declared once: the key bindings, the footer, the help, the palette and docs/tui.md are made from
this table. What an action does to the view is in ``moves``; what it does beyond it, in ``app``."""

from typing import Literal, NamedTuple

from gssr.tui.view import ScreenName

Category = Literal["Screens", "Moving", "Time", "What is shown", "Taking away", "Program"]


class Action(NamedTuple):
    """One action. ``keys`` are Textual's names, the first is shown; ``label`` is for the footer ("" keeps it out of it),
    where ``screens`` limits it to these. ``traces``: offered with a trace only; ``passing``: in ``gssr top`` only."""

    name: str
    keys: tuple[str, ...]
    label: str
    help: str
    category: Category
    screens: tuple[ScreenName, ...] = ()
    traces: bool = False
    passing: bool = False


ACTIONS: tuple[Action, ...] = (
    Action("screen_job", ("1",), "", "Job: how well is the job using its GPUs", "Screens"),
    Action("screen_gpus", ("2",), "", "GPUs: which of them differ", "Screens"),
    Action("screen_map", ("3",), "", "Map: where they are, node by node", "Screens"),
    Action("screen_time", ("4",), "", "Time: when they were used and when not", "Screens"),
    Action("screen_balance", ("5",), "", "Balance: what imbalance costs", "Screens"),
    Action("screen_why", ("6",), "", "Why: what the rules say, and the selection against the whole job", "Screens"),
    Action("screen_compare", ("7",), "", "Compare: two runs beside each other", "Screens"),
    Action("screen_calls", ("8",), "", "Calls, of a trace: kernels, ranges and calls by name", "Screens", traces=True),
    Action("next_screen", ("tab",), "", "the next screen", "Screens"),
    Action("previous_screen", ("shift+tab",), "", "the previous screen", "Screens"),
    Action("enter", ("enter",), "Enter down", "one level down: job, node, GPU, why", "Moving"),
    Action("back", ("escape",), "Esc up", "one level up, then back to the whole job", "Moving"),
    Action("up", ("up", "k"), "↑↓ notes", "the line above; on Why: the note before, or the metric", "Moving", ("why",)),
    Action(
        "down", ("down", "j"), "", "the line below; on Why: the next note, which the table is about, or the next metric",
        "Moving",
    ),
    Action("left", ("left", "h"), "", "to the left; in time: the column before", "Moving"),
    Action("right", ("right", "l"), "", "to the right; in time: the column after", "Moving"),
    Action("page_up", ("pageup",), "", "a page up", "Moving"),
    Action("page_down", ("pagedown",), "", "a page down", "Moving"),
    Action("first", ("g", "home"), "", "to the first line", "Moving"),
    Action("last", ("G", "end"), "", "to the last line", "Moving"),
    Action("next_outlier", ("n",), "n outlier", "the next GPU that is not like the rest", "Moving", ("gpus", "map")),
    Action("previous_outlier", ("N",), "", "the previous GPU that is not like the rest", "Moving"),
    Action(
        "next_found", ("f",), "f next", "of a trace: the next interval of the name under the cursor", "Moving", ("time",),
        True,
    ),
    Action("previous_found", ("F",), "", "of a trace: the previous interval of that name", "Moving", traces=True),
    Action(
        "cause", ("b",), "b cause",
        "of a trace: from work on a GPU to the call that launched it, from a send to its receive, and back", "Moving",
        ("time",), True,
    ),
    Action("pause", ("space",), "space pause", "hold the view still, or go on with the newest sample", "Time"),
    Action("play", ("p",), "", "play the recording from the window's right edge; again: faster, then stop", "Time"),
    Action("zoom_in", ("plus",), "+- zoom", "less time in a column", "Time"),
    Action("zoom_out", ("minus",), "", "more time in a column", "Time"),
    Action("zoom_all", ("equals_sign",), "= window", "the whole run; again, while it grows: its last 5 minutes", "Time"),
    Action("step_back", ("left_square_bracket",), "", "one column back in time", "Time"),
    Action("step_forward", ("right_square_bracket",), "", "one column on in time", "Time"),
    Action("leap_back", ("left_curly_bracket",), "", "ten columns back in time", "Time"),
    Action("leap_forward", ("right_curly_bracket",), "", "ten columns on in time", "Time"),
    Action("go_to", ("t",), "", "go to a time: 90, 5m, 1:30 after the start, -60 before the end, or a date", "Time"),
    Action("metrics", ("m",), "m metric", "choose a metric, by its name", "What is shown"),
    Action("next_metric", ("M",), "", "the next metric that was measured", "What is shown"),
    Action(
        "filter", ("slash",), "/ filter",
        "show only some GPUs: nid0012* a node, *:0 an index, sm<30 a mean in percent, user=ada what runs; of a trace also "
        "only some intervals: name=nccl*, takes>1ms, size>1M; on Calls: names",
        "What is shown",
        ("gpus", "map", "calls"),
    ),
    Action("next_sort", ("full_stop",), ",. sort", "sort by the next column", "What is shown", ("gpus", "calls")),
    Action("previous_sort", ("comma",), "", "sort by the previous column", "What is shown", ("gpus",)),
    Action("reverse", ("r",), "r reverse", "sort the other way round", "What is shown", ("gpus", "calls")),
    Action(
        "density", ("v",), "v view",
        "more or fewer GPUs at once; on Time: to the traces of a recording, their GPUs, streams, threads, processes, nodes, "
        "on Calls: the next table",
        "What is shown", ("gpus", "map", "calls"),
    ),
    Action(
        "group", ("u",), "u ungroup",
        "similar GPUs in one band, or each on its own line; of a trace also what bands do that spend their time alike",
        "What is shown", ("time",),
    ),
    Action("events", ("e",), "", "what happened: the list of events", "What is shown"),
    Action("next_other", ("c",), "c other", "compare with the next recording or run", "What is shown", ("compare",)),
    Action(
        "align", ("a",), "a align",
        "align both runs at their start, where they begin to work, of traces at a step, or at a mark that both have",
        "What is shown", ("compare",),
    ),
    Action("output", ("o",), "", "what the workload prints, beside the screen", "What is shown"),
    Action("export", ("x",), "", "write what is on screen to a file: text, PNG, SVG or CSV", "Taking away"),
    Action("keep", ("w",), "w keep", "in gssr top: keep what was recorded so far, as a file", "Taking away", passing=True),
    Action("copy", ("y",), "", "copy what is on screen to the clipboard, through the terminal", "Taking away"),
    Action("palette", ("colon", "ctrl+p"), "", "find an action, a metric, a GPU or a node by its name", "Program"),
    Action("help", ("question_mark", "f1"), "? help", "these keys", "Program"),
    Action("interrupt", ("ctrl+c",), "", "beside a job: stop it, leave it running, or go back; else leave", "Program"),
    Action("suspend", ("ctrl+z",), "", "to the shell for a while; its fg comes back here", "Program"),
    Action("quit", ("q",), "q quit", "close what lies over the screen; else leave, the job goes on", "Program"),
)  # fmt: skip

BY_NAME: dict[str, Action] = {action.name: action for action in ACTIONS}

KEY_NAMES = {
    "plus": "+", "minus": "-", "equals_sign": "=", "left_square_bracket": "[", "right_square_bracket": "]",
    "left_curly_bracket": "{", "right_curly_bracket": "}", "slash": "/", "full_stop": ".", "comma": ",",
    "question_mark": "?", "colon": ":", "escape": "Esc", "enter": "Enter", "tab": "Tab", "shift+tab": "Shift-Tab",
    "pageup": "PgUp", "pagedown": "PgDn", "home": "Home", "end": "End", "ctrl+p": "Ctrl-P", "ctrl+c": "Ctrl-C",
    "ctrl+z": "Ctrl-Z", "f1": "F1",
    "up": "↑", "down": "↓", "left": "←", "right": "→",
}  # fmt: skip
"""How a key is written for people, where that differs from Textual's name for it."""


def shown_keys(action: Action) -> str:
    """The action's keys for people: ``+``, ``g Home``."""
    return " ".join(KEY_NAMES.get(key, key) for key in action.keys)


def offered(trace: bool, passing: bool = False) -> list[Action]:
    """The actions that there are, with a ``trace`` or without one, of what is ``passing`` or not."""
    return [action for action in ACTIONS if action.traces <= trace and action.passing <= passing]


def footer_of(screen: ScreenName, trace: bool = False, passing: bool = False) -> list[Action]:
    """The actions that the footer of a screen names: its own first."""
    own = [action for action in offered(trace, passing) if not action.screens or screen in action.screens]
    named = [action for action in own if action.label]
    return sorted(named, key=lambda action: not action.screens)
