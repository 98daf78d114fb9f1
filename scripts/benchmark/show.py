"""What a run saw, as a table, as JSON and as bars."""
import json
from xml.sax.saxutils import escape


def verdict(row, column, ratio):
    wanted = row["wanted"].get(column)
    if wanted is None:
        return ""
    is_held = ratio >= wanted if wanted > 0 else ratio <= -wanted
    bound = f"at least {wanted}" if wanted > 0 else f"at most {-wanted}"
    return f"  ({bound} wanted: {'held' if is_held else 'NOT held'})"


def table(rows):
    for row in rows:
        first, *_ = row["medians"].values()
        print(f"\n{row['row']} ({row['unit']}, medians; ratio to the first)")
        for column, median in row["medians"].items():
            ratio = median / first if first else 0
            print(f"  {column:22} {median:12.6g}  {ratio:7.2f} x{verdict(row, column, ratio)}")


def svg(rows):
    bars, at = [], 10
    for row in rows:
        most = max(row["medians"].values()) or 1
        bars.append(f'<text x="10" y="{at + 14}" font-weight="bold">{escape(row["row"])} ({row["unit"]})</text>')
        at += 22
        for column, median in row["medians"].items():
            colour = "#2b6cb0" if column.startswith("pcapzst") else "#a0aec0"
            length = 420 * median / most
            bars.append(
                f'<text x="20" y="{at + 13}">{escape(column)}</text>'
                f'<rect x="190" y="{at}" width="{max(1, length):.0f}" height="16" fill="{colour}"/>'
                f'<text x="{200 + length:.0f}" y="{at + 13}">{median:.4g}</text>'
            )
            at += 20
        at += 12
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="720" height="{at}" font-family="sans-serif" font-size="13">'
    return f'{head}<rect width="100%" height="100%" fill="white"/>{"".join(bars)}</svg>\n'


def save(folder, name, about, rows):
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n")
    (folder / f"{name}.svg").write_text(svg(rows))
