"""What the user prefers the live screen to begin with: ``config.toml`` in a folder of the user's own.

It is read from nowhere else, so that no recording and no folder one happens to be in can say anything, and it changes
nothing but how a screen begins.
"""

import os
import stat
from collections.abc import Mapping
from typing import NamedTuple

from gssr.report.live.gpu_filter import metric_called
from gssr.spelling import did_you_mean_or_list, meant
from gssr.tui.view import TITLES, ScreenName

_MOST_BYTES = 1 << 16
_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class Settings(NamedTuple):
    """The settings of the file; None where it says nothing. ``problem``: why it can't be used, and then all is None."""

    theme: str | None = None
    screen: ScreenName | None = None
    metric: str | None = None
    problem: str = ""


def settings_file() -> str | None:
    """Return the path of the settings file: ``gssr/config.toml`` below $XDG_CONFIG_HOME if that is absolute, else
    below ~/.config. Returns None for a user without a home."""
    folder = os.environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(folder):  # else it would be one in the folder we are in
        folder = os.path.expanduser("~/.config")
    return os.path.join(folder, "gssr", "config.toml") if os.path.isabs(folder) else None


def read_settings() -> Settings:
    """Read the user's settings; all None if there is no file. A file that can't be used gives a ``problem``. Never
    raises."""
    path = settings_file()
    try:
        return Settings() if path is None else _checked(_parsed(_own_text(path)))
    except (FileNotFoundError, NotADirectoryError):
        return Settings()
    except OSError as error:
        why = error.strerror
    except UnicodeDecodeError:
        why = "is not UTF-8"
    except (ValueError, RecursionError) as error:
        why = str(error)
    return Settings(problem=f"{path}: is not used: {why}")


def _parsed(text: str) -> Mapping[str, object]:
    """Parse TOML. Raises ValueError, with a part of a sentence."""
    import tomllib  # few users have such a file

    return tomllib.loads(text)


def _own_text(path: str) -> str:
    """Read a file that nobody else can have written. Raises OSError, UnicodeDecodeError, and ValueError with a part of
    a sentence."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with open(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is not a file")
        if status.st_uid != os.geteuid():
            raise ValueError("it is another user's")
        if status.st_mode & _OTHERS:
            raise ValueError("others may write it: chmod go-w")
        data = stream.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise ValueError("it is too long")
    return data.decode()


def _checked(found: Mapping[str, object]) -> Settings:
    """Return the settings that a parsed file holds. Raises ValueError, with a part of a sentence, for what is none of
    the settings."""
    words: dict[str, str] = {}
    for name, value in found.items():
        if name not in ("theme", "screen", "metric"):
            raise ValueError(f"no setting {name!r}; known: theme, screen, metric")
        if not isinstance(value, str):
            raise ValueError(f"{name} must be a text in quotes")
        words[name] = value
    theme, screen, metric = words.get("theme"), words.get("screen"), words.get("metric")
    return Settings(
        None if theme is None else theme_called(theme),
        None if screen is None else screen_called(screen),
        None if metric is None else metric_called(metric),
    )


def screen_called(word: str) -> ScreenName:
    """Return the screen of this name; upper and lower case are alike. Raises ValueError, with a sentence, if there is
    none."""
    for name in TITLES:
        if name == word.lower():
            return name
    raise ValueError(f"no screen {word!r}{did_you_mean_or_list(meant(word, TITLES), 'there are', TITLES)}")


def theme_called(word: str) -> str:
    """Return the theme of this name, one of ours or of Textual's. Raises ValueError, with a sentence, if there is
    none."""
    from textual.theme import BUILTIN_THEMES

    from gssr.tui.themes import THEMES

    known = [theme.name for theme in THEMES]
    known += [name for name in BUILTIN_THEMES if name not in known]
    if word in known:
        return word
    raise ValueError(f"no theme {word!r}{did_you_mean_or_list(meant(word, known), 'there are', known)}")
