"""Tables of the report."""

from gssr.report.content import Table
from gssr.report.html.markup import Markup, sentence, tag


def drawn_table(table: Table) -> Markup:
    """A table, with room to scroll where it is wider than the page."""

    def class_of(column: int) -> str | None:
        return "n" if column >= table.n_text else None

    head = [tag("th", text, scope="col", class_=class_of(i)) for i, text in enumerate(table.head)]
    rows = []
    for number, row in enumerate(table.rows):
        below = table.below[number] if table.below else ""
        cells = [tag("td", text, class_=class_of(i)) for i, text in enumerate(row[1:], 1)]
        rows.append(tag("tr", tag("th", row[0], scope="row"), *cells, class_="told" if below else None))
        if below:
            rows.append(
                tag("tr", tag("td"), tag("td", tag("div", sentence(below)), colspan=len(row) - 1), class_="below")
            )
    return tag("div", tag("table", tag("thead", tag("tr", *head)), tag("tbody", *rows)), class_="scroll")
