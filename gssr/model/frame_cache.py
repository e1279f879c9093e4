"""Answers about a frame, computed once however often it is drawn."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

_Subject = TypeVar("_Subject")
_Rest = ParamSpec("_Rest")
_Answer = TypeVar("_Answer")

_KEPT = 8


def once(function: Callable[Concatenate[_Subject, _Rest], _Answer]) -> Callable[Concatenate[_Subject, _Rest], _Answer]:
    """Make a function remember its last few answers. The first argument is known by its identity, so it must never
    change (a frame doesn't); the others by equality. What it raises is not remembered. For one thread."""
    kept: list[tuple[_Subject, object, _Answer]] = []

    @wraps(function)
    def look_up_or_compute(subject: _Subject, /, *args: _Rest.args, **kwargs: _Rest.kwargs) -> _Answer:
        """Return the answer to the same question about the same subject if it is still kept, else compute and keep
        it."""
        asked = (args, kwargs)
        for known, question, answer in kept:
            if known is subject and question == asked:
                return answer
        answer = function(subject, *args, **kwargs)
        kept.append((subject, asked, answer))
        del kept[:-_KEPT]
        return answer

    return look_up_or_compute
