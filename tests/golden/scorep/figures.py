"""Figures of pycubexr's public profiles, and what ``gssr analyze`` says of the same files: see README.md."""

import contextlib
import hashlib
import io
import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

FILES = (
    "time.p4.n2000.x1.r0/profile.cubex", "call_tree_test/call_tree_test.cubex", "fastest.p16.size131072.r1/profile.cubex",
    "blast.p64.r1/profile.cubex", "bt-mz_sum.p2.r1/cube4.8_with_checksum_bug.cubex", "kripke.p8.d2.g32.r1/profile.cubex",
    "hw_counter/L2_DCM_negative.cubex", "hw_counter/L3_DCA_negative.cubex",
)  # fmt: skip
Figures = dict[str, Any]
Tree = list[dict[str, Any]]


def content(folder: Path, name: str) -> bytes:
    """A file of the repository: of its checkout, or of the git directory's newest commit."""
    path = folder / "data" / name
    if path.exists():
        return path.read_bytes()
    return subprocess.run(["git", "-C", folder, "show", f"HEAD:data/{name}"], capture_output=True, check=True).stdout


def hidden(name: str) -> str:
    """A function's name as it stands here."""
    return hashlib.sha256(name.encode()).hexdigest()[:12]


def rounded(value: float) -> float:
    """To twelve digits."""
    return float(f"{value:.12g}")


def compare_with_dump(parser: Any, folder: Path, name: str) -> None:
    """cube_dump's own figures, where they are there: they have six digits."""
    for kind in ("incl", "excl"):
        try:
            lines = content(folder, f"{Path(name).parent}/{kind}.csv").decode().splitlines()
        except subprocess.CalledProcessError:
            return
        columns = lines[0].split(",")[2:]
        for line in lines[1:]:
            node, location, *values = line.split(",")
            for column, text in zip(columns, values, strict=True):
                if column in ("visits", "time", "bytes_sent", "bytes_received"):
                    metric = parser.get_metric_values(parser.get_metric_by_name(column))
                    options = {"convert_to_inclusive": kind == "incl", "convert_to_exclusive": kind == "excl"}
                    ours = float(metric.cnode_values(parser.get_cnode(int(node)), **options)[int(location)])
                    assert abs(ours - float(text)) <= 2e-5 * abs(float(text)) + 1e-9, (name, column, node, location)


def figures_of(path: Path, folder: Path, name: str) -> Figures:
    """By pycubexr."""
    import pycubexr
    from pycubexr.utils.exceptions import MissingMetricError, UnsupportedMetricFormatError

    with pycubexr.CubexParser(str(path)) as parser:
        compare_with_dump(parser, folder, name)
        nodes = parser.get_root_cnodes()[0].get_all_children()
        places = {node.id: place for place, node in enumerate(nodes)}
        parents = {child.id: places[node.id] for node in nodes for child in node.get_children()}
        totals: dict[str, float] = {}
        tree: Tree = [{"name": hidden(node.region.name), "parent": parents.get(node.id)} for node in nodes]
        for metric in parser.all_metrics():
            try:
                values = parser.get_metric_values(metric)
            except (MissingMetricError, UnsupportedMetricFormatError):
                continue
            if metric.data_type in ("MINDOUBLE", "MAXDOUBLE"):
                continue
            inclusive = [float(values.cnode_values(node, convert_to_inclusive=True).sum()) for node in nodes]
            totals[metric.name] = rounded(inclusive[0])
            if metric.name in ("time", "visits"):
                exclusive = [float(values.cnode_values(node, convert_to_exclusive=True).sum()) for node in nodes]
                for row, whole, own in zip(tree, inclusive, exclusive, strict=True):
                    row[metric.name] = [rounded(whole), rounded(own)]
        return {"locations": len(parser.get_locations()), "totals": totals, "tree": tree}


def make(folder: Path) -> Figures:
    """Of all files."""
    found: Figures = {}
    with tempfile.TemporaryDirectory() as temporary, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in FILES:
            path = Path(temporary) / "profile.cubex"
            path.write_bytes(content(folder, name))
            found[name] = {"sha256": hashlib.sha256(path.read_bytes()).hexdigest(), **figures_of(path, folder, name)}
    return found


def differences(said: dict[str, Any], figures: Figures) -> list[str]:
    """What ``gssr analyze --json`` says otherwise than the figures of a file do."""
    found: list[str] = []
    theirs: dict[int | None, Tree] = {}
    for number, row in enumerate(figures["tree"]):
        theirs.setdefault(row["parent"], []).append(row | {"id": number})
    ours: dict[int | None, Tree] = {}
    for row in said["calltree"]:
        ours.setdefault(row["parent"], []).append(row)

    def match(of_theirs: int | None, of_ours: int | None) -> None:
        left = sorted(theirs.get(of_theirs, []), key=lambda row: (row["name"], row["time"][0]))
        right = sorted(ours.get(of_ours, []), key=lambda row: (hidden(row["name"]), row["inclusive_ns"]))
        if [row["name"] for row in left] != [hidden(row["name"]) for row in right]:
            found.append(f"below {of_theirs}: {len(left)} paths, not {len(right)}, or other names")
            return
        for one, other in zip(left, right, strict=True):
            if other["count"] != one["visits"][1]:
                found.append(f"{other['name']}: {one['visits'][1]} calls, not {other['count']}")
            for key, seconds in zip(("inclusive_ns", "exclusive_ns"), one["time"], strict=True):
                if (
                    abs(other[key] - 1e9 * seconds)
                    > 1e-9 * abs(1e9 * seconds) + 1e-12 * figures["totals"]["time"] * 1e9 + 1
                ):
                    found.append(f"{other['name']}: {key} is {1e9 * seconds:.0f}, not {other[key]}")
            match(one["id"], other["id"])

    match(None, None)
    roots = {row["id"] for row in ours[None]}
    for name, total in figures["totals"].items():
        rows = [row for row in said["calltree_metrics"] if row["metric"] == name and row["id"] in roots]
        if name != "time" and (not rows or abs(rows[0]["inclusive"] - total) > 1e-9 * abs(total)):
            found.append(f"{name}: {total}, not {rows and rows[0]['inclusive']}")
    return found


def check(folder: Path, figures: Figures) -> bool:
    """Says of each file what differs; whether nothing does."""
    from gssr.cli import main

    right = True
    with tempfile.TemporaryDirectory() as temporary:
        for name, meant in figures.items():
            path = Path(temporary) / "profile.cubex"
            path.write_bytes(content(folder, name))
            assert hashlib.sha256(path.read_bytes()).hexdigest() == meant["sha256"], name
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                main(["analyze", "--json", str(path)])
            wrong = differences(json.loads(out.getvalue()), meant)
            print(name, "agrees" if not wrong else f"{len(wrong)} differences", *wrong[:5], sep="\n  ")
            right = right and not wrong
    return right


if __name__ == "__main__":
    what, where = sys.argv[1], Path(sys.argv[2])
    if what == "make":
        made = make(where)
        print("{" + ",\n".join(f"{json.dumps(name)}: {json.dumps(one)}" for name, one in made.items()) + "}")
    else:
        raise SystemExit(not check(where, json.loads((Path(__file__).parent / "figures.json").read_text())))
