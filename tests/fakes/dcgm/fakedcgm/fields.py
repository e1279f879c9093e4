"""Which fields each major version knows, and their types: ids of dcgm_fields.h in 3.3.9 and 4.6.0."""

_OF_3 = {
    "b": "60-62 75-77 91 130 205 501-513 528-531",
    "d": "155 157 160-164 254 1001-1008 1013-1034 1100-1104 1110-1112 1130-1133",
    "s": "1-3 50-51 53-54 56-57 68 80-82 85 520-521 523-524 532-533 878 1140-1141",
    "i": "4-5 52 55 58-59 63 65-67 69-74 83-84 86-90 92-93 100-102 110-115 120 140 150-152 156 158-159 190-191 200-204"
    " 206-207 230 235-238 240-247 250-253 285-287 300-301 310-333 385-396 400-489 491-496 500 522 525-527 534 701-707"
    " 780-816 856-877 1009-1012 1040-1075 1120",
}
_OF_4 = {
    "b": _OF_3["b"] + " 165-167 362",
    "d": _OF_3["d"] + " 1216 1218 1310 1428-1432 1434-1436 1439-1441",
    "s": _OF_3["s"] + " 172 571-572 877 1502 1524",
    "i": _OF_3["i"].replace("856-877", "856-876")
    + " 6 64 94 153 170-171 173-175 334-346 350-361 363 490 497-499 573-577"
    " 580-592 817-843 879-897 1076-1096 1200-1215 1217 1219-1220 1300-1309 1400-1427 1433 1437-1438 1442 1501 1503 1507-1509"
    " 1523 1525-1533",
}


def ranges(major: int) -> list[tuple[int, int, str]]:
    """(first id, last id, type) of all fields; the types are DCGM's: binary, double, string, int64."""
    found = []
    for kind, listed in (_OF_4 if major >= 4 else _OF_3).items():
        for part in listed.split():
            first, _, last = part.partition("-")
            found.append((int(first), int(last or first), kind))
    return found


def _types(major: int) -> dict[int, str]:
    return {field: kind for first, last, kind in ranges(major) for field in range(first, last + 1)}


TYPES = {major: _types(major) for major in (3, 4)}
"""Major version: {field: type}"""

PROFILING = range(1001, 1100)
