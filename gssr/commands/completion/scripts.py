"""The scripts of the shells: their own parts, beside this file, with the commands in them."""

import os
from collections.abc import Iterable, Iterator

from gssr.commands import NAMES, Command, command_called
from gssr.commands.completion.typed import Typed, Value, typed


def script(shell: str) -> str:
    """Return the completion script for ``bash``, ``zsh`` or ``fish``."""
    with open(os.path.join(os.path.dirname(__file__), f"gssr.{shell}"), encoding="utf-8") as stream:
        text = stream.read()
    made = {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell]
    commands = [command_called(name) for name in NAMES]
    text = text.replace("@NAMES@", " ".join(NAMES))
    return text.replace("@COMMANDS@\n", "".join(f"{line}\n" for line in made(commands)))


def _bash(commands: Iterable[Command]) -> Iterator[str]:
    """Yield the lines for bash: a branch for each command."""
    for command in commands:
        options, behind = typed(command)
        yield f"    {command.name})"
        yield f"        flags='{' '.join(flag for option in options for flag in option.flags)}'"
        yield "        case $2 in"
        for option in options:
            if option.value is not None:
                words = " ".join((option.value.kind + option.many, *option.value.words))
                yield f"        {' | '.join(option.flags)}) kind='{words}' ;;"
        yield f"        '') kind='{' '.join((behind.kind, *behind.words))}' ;;"
        yield "        esac"
        yield "        ;;"


def _zsh(commands: Iterable[Command]) -> Iterator[str]:
    """Yield the lines for zsh: the names of the commands, and a branch for each."""
    commands = list(commands)
    yield "    local -a gssr_commands=("
    yield from (f"        {_quoted(f'{command.name}:{command.help}')}" for command in commands)
    yield "    )"
    yield "    case $words[1] in"
    for command in sorted(commands, key=lambda command: command.name == "tui"):
        options, behind = typed(command)
        yield "    *) # tui, and gssr FILE" if command.name == "tui" else f"    {command.name})"
        first_ends_them = " -A '-*'" if behind.kind == "command" else ""
        yield f"        options=({first_ends_them}"
        for option in options:
            also = "" if option.again else f"({' '.join(option.flags)})"
            yield from (f"            {_quoted(_zsh_option(option, also, flag))}" for flag in option.flags)
        if behind.kind == "command":
            yield "            '*::: :_normal'"
        else:
            yield f"            {_quoted(f'*: :{_zsh_action(behind)}')}"
        yield "        )"
        yield "        ;;"
    yield "    esac"


def _zsh_option(option: Typed, also: str, flag: str) -> str:
    """Return an option as zsh's _arguments takes it; ``also``: the flags after which it is no longer offered, in
    parentheses, or ""."""
    text = f"[{_escaped(option.help)}]"
    if option.value is None:
        return f"{also}{flag}{text}"
    equals = "=" * flag.startswith("--")
    optional = ":" * (option.many == "?")
    return f"{also or '*'}{flag}{equals}{text}{optional}:{_escaped(option.metavar)}:{_zsh_action(option.value)}"


def _zsh_action(value: Value) -> str:
    """Return what zsh's _arguments calls to complete a value."""
    if value.kind == "any":
        return " "
    if value.kind == "folder":
        return "_files -/"
    if value.kind == "files":
        ends = "|".join(end[1:] for end in value.words)
        return f'_files -g "*.({ends})(-.)"' if ends else "_files"
    return " " + " ".join((f"_gssr_{value.kind}", *(_escaped(word) for word in value.words)))


def _fish(commands: Iterable[Command]) -> Iterator[str]:
    """Yield the lines for fish: its ``complete`` calls."""
    commands = list(commands)
    for command in commands:
        yield f"complete -c gssr -n '__gssr_at none' -a {command.name} -d {_quoted(command.help)}"
    for command in commands:
        options, behind = typed(command)
        here = f"complete -c gssr -n '__gssr_at {command.name}'"
        for option in options:
            flags = " ".join(f"-{_fish_kind(flag)} {flag.lstrip('-')}" for flag in option.flags)
            value = "" if option.value is None or option.many == "?" else f" {_fish_value(option.value)}"
            yield f"{here} {flags}{value} -d {_quoted(option.help)}"
        if behind.kind != "any":
            yield f"{here} {_fish_value(behind)}"
    (profile,) = (command for command in commands if command.name == "profile")
    with_value = [flag for option in typed(profile)[0] if option.value is not None for flag in option.flags]
    yield f"set -g __gssr_with_value {' '.join(with_value)}"


def _fish_kind(flag: str) -> str:
    """Return fish's letter for a kind of flag: l for two dashes, s for one letter, o for one dash and several letters."""
    return "l" if flag.startswith("--") else "s" if len(flag) == 2 else "o"


def _fish_value(value: Value) -> str:
    """Return the arguments of fish's ``complete`` for a value."""
    words = " ".join(value.words)
    found = {
        "list": f"(__gssr_list (__gssr_words {words}))",
        "folder": "(__fish_complete_directories (__gssr_word))",
        "command": "(__fish_complete_command)",
    }.get(value.kind, f"(__gssr_{value.kind} {words})")
    if value.kind == "any":
        return "-x"
    if value.kind == "files":
        return f"-x -a '{found}'" if words else "-r -F"
    return f"-x -a '{found}'"


def _escaped(text: str) -> str:
    """Escape a text for zsh's _arguments."""
    return "".join("\\" + char if char in "\\[]:" else char for char in text)


def _quoted(text: str) -> str:
    """Quote a text for zsh and fish, which share these rules if nothing but a quote needs it."""
    return "'" + text.replace("'", "'\\''") + "'"
