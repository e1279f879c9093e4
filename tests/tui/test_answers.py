"""Each screen answers its question: from a recording with a planted cause to that cause in at most six keys, at 80 x 24."""

from typing import NamedTuple

import pytest
from textual.pilot import Pilot

from tests.looking import live_screen, seen, until, work


class Answer(NamedTuple):
    """Recordings, the keys from the first screen on, and words that the answer must hold."""

    name: str
    plants: tuple[str, ...]
    keys: tuple[str, ...]
    words: tuple[str, ...]


ANSWERS = (
    Answer(
        "job-checkpoints", ("checkpoint",), (),
        ("score", "waiting for copies.", "▲ → The GPUs send", "of the GPU time is spent computing", "every GPU over time"),
    ),
    Answer("gpus-straggler", ("straggler",), ("2", "n"), ("▲", "nid000007:2", "below the median")),
    Answer("gpus-gap", ("gap",), ("2", "n"), ("nid000002:2", "without samples")),
    Answer("gpus-slow-node", ("slow_node",), ("2", "v", "v"), ("▲ nid000003", "50.8")),
    Answer("time-late-start", ("late_start",), ("3",), ("▲nid000005", "others work", "steady")),
    Answer("time-dip", ("io_dip",), ("3", "t", *"4:20", "enter"), ("cursor at", "all metrics at")),
    Answer("balance-rotating", ("rotating",), ("4",), ("otates", "time means hide it")),
    Answer("balance-static", ("straggler",), ("4",), ("nid000007:2",)),
    Answer("job-culprit", ("slow_node",), ("1",), ("every GPU over time   ▲ slowed down by heat", "▲nid000003")),
    Answer("why-throttled", ("slow_node",), ("5",), ("nid000003", "slowed down by heat", "warning", "SM clock 1,140 MHz")),
    Answer("why-late", ("late_start",), ("5",), ("all GPUs of nid000005) were first seen at work",)),
    Answer("compare-better", ("before", "after"), ("6",), ("less time", "better")),
)  # fmt: skip


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.name)
def test_a_planted_cause_is_reached_in_six_keys(answer: Answer, plants: dict[str, str]) -> None:
    assert len([key for key in answer.keys if not key.isdigit() and key != ":"]) + 1 <= 6
    app = live_screen(*(plants[name] for name in answer.plants))

    def words() -> str:
        text = seen(app)
        return text + " ".join(text.replace("▌", " ").split())

    async def steps(pilot: Pilot[int]) -> None:
        await until(pilot, lambda: app.results[0].judgement is not None)
        for key in answer.keys:
            await pilot.press(key)
            await until(pilot, lambda: app.screen is not app.screen_stack[0] or app.pane.is_ready)
        try:
            await until(pilot, lambda: all(word in words() for word in answer.words))
        except AssertionError:
            raise AssertionError(seen(app)) from None

    work(app, steps, (80, 24))
