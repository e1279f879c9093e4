"""Whether B is better, in one sentence, and which two runs they are."""

from gssr.model.live.alignment import seconds
from gssr.model.live.live_result import Result
from gssr.render.cells import at_most, clean, fit, wrap
from gssr.render.glyphs import in_ascii
from gssr.render.roles import Role, Row, Span
from gssr.render.scale import count
from gssr.report.live.run_effects import name_of, outcome_of_sentence, sentence
from gssr.report.live.times_of_run import in_part, is_whole, length_text, part_text
from gssr.tui.shared.panel import RowsPanel
from gssr.tui.view import View


class CompareSentence(RowsPanel):
    """The answer of this screen; before there are two results, how to get there."""

    other: Result | None = None

    def show_both(self, one: Result, other: Result | None, view: View) -> None:
        """Speak of these two runs from now on; ``other`` is None while its first result has not come."""
        self.other = other
        self.border_title = in_part("was another run better?", part_text(one))
        self.show(one, view)

    def rows(self, result: Result, width: int, height: int) -> list[Row]:
        """Draw the sentence, then a line for each of the two runs. While the other run has no rows, say why: its
        problem, or that it is being read."""
        other, ellipsis = self.other, self.glyphs.ellipsis
        if other is None or not other.n_rows:
            why = other.problem if other is not None and other.problem else f"reading the other recording{ellipsis}"
            return at_most(wrap(why, width), height, width, ellipsis)
        outcome = outcome_of_sentence(result, other)
        mark, role = {"better": ("▲ ", "good"), "worse": ("▼ ", "bad")}.get(outcome, ("", "value"))
        said = mark + sentence(result, other)
        if self.glyphs.levels.isascii():
            said = in_ascii(said.replace("→", "->").replace("▲", "+").replace("▼", "!"))
        rows = wrap(said, width, rest="  " if mark else "", role=role)  # type: ignore[arg-type]
        look: Role
        for letter, frame, look in (("A", result, "neutral"), ("B", other, "outlier")):
            rows.append((Span(f"{letter} ", look), Span(fit(_who(frame), width - 2, ellipsis), "dim")))
        return at_most(rows, height, width, ellipsis)


def _who(frame: Result) -> str:
    """Describe a run in one line: name, file, GPUs and nodes, length, state, model and command, without those that are
    unknown."""
    run, gpu = frame.run, frame.gpus[0]
    file = clean(frame.path.rstrip("/").rsplit("/", 1)[-1])
    name = name_of(frame)
    state = frame.state if run is None or frame.state != "ended" else run.state
    length = frame.duration if is_whole(frame) else seconds(frame)
    noun = "GPU" if frame.part is None else frame.part.level.noun
    words = [
        name, file if file.removesuffix(".d").removesuffix(".sql") != name else "",
        f"{count(frame.gpus_of_run, noun)} on {count(len(frame.nodes), 'node')}", length_text(frame, length), state,
        clean(gpu.name or ""), clean(" ".join(run.command)) if run else "",
    ]  # fmt: skip
    return ", ".join(word for word in words if word)
