"""How roles look: the user's own 16 colours, or none."""

from rich.style import Style

from gssr.render.roles import RAMP, RAMP_LOW, ROLES, Role


def looks(colors: int) -> dict[Role, Style]:
    """A style for each role on a terminal of so many colours (0: none)."""
    found = {}
    for role, look in ROLES.items():
        style = Style.parse(look.rich or "none")
        few = not colors or (colors < 256 and role in RAMP + RAMP_LOW)
        found[role] = style.without_color if few else style
    return found
