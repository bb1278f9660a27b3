"""Draws lines and bars over a logarithmic axis, or lines over time, as SVG, with nothing but the standard library."""

import math
from xml.sax.saxutils import escape

WIDTH, PANEL = 720, 260
LEFT, RIGHT, TOP, BOTTOM, GAP = 64, 150, 40, 44, 64
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
STYLE = (
    "text{font:12px sans-serif;fill:#333}.title{font-size:14px;font-weight:bold}"
    ".grid{stroke:#ddd}.axis{stroke:#333}.line{fill:none;stroke-width:2}"
    ".back{fill:#fff}.mark{stroke:#999;stroke-width:.5}"
)


def ceiling(value, steps=(1, 2, 5, 10)):
    """The next round number: one of the steps times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in steps if step * power >= value)


def short(number):
    """A number as an axis label."""
    if number >= 1000:
        return f"{number / 1000:g} k"
    return f"{number:g}"


class Panel:
    """One diagram: `lines` gives (x, y) points by name; all x are positive."""

    has_dots = True

    def __init__(self, title, unit, lines, across="nodes"):
        self.title, self.unit, self.lines, self.across = title, unit, lines, across
        self.top = TOP
        points = [point for line in lines.values() for point in line]
        self.low = math.floor(math.log10(min((x for x, _ in points), default=1)))
        high = math.ceil(math.log10(max((x for x, _ in points), default=10)))
        self.high = max(high, self.low + 1)
        self.most = ceiling(max((y for _, y in points), default=1))

    def x(self, value):
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(self, value):
        return self.top + PANEL * (1 - value / self.most)

    def steps(self):
        """Where the axis is labelled."""
        return [10.0**power for power in range(self.low, self.high + 1)]

    def draw(self):
        yield text(LEFT, self.top - 14, self.title, css="title")
        right, bottom = WIDTH - RIGHT, self.top + PANEL
        for step in range(6):
            value = self.most * step / 5
            yield line(LEFT, self.y(value), right, self.y(value), "grid")
            yield text(LEFT - 8, self.y(value) + 4, short(round(value, 6)), "end")
        for value in self.steps():
            at = self.x(value)
            yield line(at, self.top, at, bottom, "grid")
            yield text(at, bottom + 18, short(value), "middle")
        yield line(LEFT, bottom, right, bottom, "axis")
        yield line(LEFT, self.top, LEFT, bottom, "axis")
        yield text(right, bottom + 36, self.across, "end")
        yield text(LEFT - 8, self.top - 14, self.unit, "end")
        yield from self.curves()

    def curves(self):
        taken = []
        for colour, (name, points) in zip(COLOURS, self.lines.items()):
            where = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
            yield f'<polyline class="line" stroke="{colour}" points="{where}"/>'
            for x, y in points if self.has_dots else ():
                yield f'<circle cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="3" fill="{colour}"/>'
            # Names stand at the ends of their lines, one below the other where those meet.
            at = self.y(points[-1][1]) + 4
            while any(abs(at - other) < 14 for other in taken):
                at -= 14
            taken.append(at)
            yield text(WIDTH - RIGHT + 10, at, name, fill=colour)


class Times(Panel):
    """One diagram over minutes from 0 on, with a thin vertical line at each of `marks`."""

    has_dots = False
    STEPS = 6

    def __init__(self, title, unit, lines, marks=()):
        self.title, self.unit, self.lines, self.across = title, unit, lines, "minutes"
        self.top, self.marks = TOP, marks
        points = [point for line in lines.values() for point in line]
        self.last = max((x for x, _ in points), default=1) or 1
        # Divided by five, each is a round number.
        self.most = ceiling(max((y for _, y in points), default=1), (1, 2, 2.5, 5, 7.5, 10))

    def x(self, value):
        return LEFT + value / self.last * (WIDTH - LEFT - RIGHT)

    def steps(self):
        step = ceiling(self.last / self.STEPS)
        return [step * place for place in range(int(self.last / step) + 1)]

    def curves(self):
        for mark in self.marks:
            yield line(self.x(mark), self.top, self.x(mark), self.top + PANEL, "mark")
        yield from super().curves()


class Bars:
    """One diagram of `bars`, (name, value, words) from the top down; what is 0 has no bar."""

    def __init__(self, title, bars, across):
        self.title, self.bars, self.across = title, bars, across
        self.top = TOP
        shown = [value for _, value, _ in bars if value > 0] or [1]
        self.low, self.high = math.floor(math.log10(min(shown))), math.ceil(math.log10(max(shown)))
        # A bar of the smallest power of ten would have no length.
        self.low -= min(shown) <= 10.0**self.low
        self.high = max(self.high, self.low + 1)

    def x(self, value):
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def draw(self):
        yield text(LEFT, self.top - 14, self.title, css="title")
        bottom = self.top + PANEL
        for power in range(self.low, self.high + 1):
            at = self.x(10.0**power)
            yield line(at, self.top, at, bottom, "grid")
            yield text(at, bottom + 18, short(10.0**power), "middle")
        yield line(LEFT, bottom, WIDTH - RIGHT, bottom, "axis")
        yield line(LEFT, self.top, LEFT, bottom, "axis")
        yield text(WIDTH - RIGHT, bottom + 36, self.across, "end")
        each = PANEL / max(len(self.bars), 1)
        for place, (name, value, words) in enumerate(self.bars):
            top, colour = self.top + place * each, COLOURS[place % len(COLOURS)]
            long = self.x(value) - LEFT if value > 0 else 0
            yield text(LEFT + 6, top + each * 0.3, f"{name}: {words}")
            yield (
                f'<rect x="{LEFT}" y="{top + each * 0.4:.1f}" width="{long:.1f}" '
                f'height="{each * 0.35:.1f}" fill="{colour}"/>'
            )


def line(x1, y1, x2, y2, css):
    return f'<line class="{css}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def text(x, y, words, anchor="start", css="", fill=""):
    style = f' style="fill:{fill}"' if fill else ""
    kind = f' class="{css}"' if css else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{kind}{style}>{escape(words)}</text>'
    )


def document(panels):
    """The whole picture: diagrams, one below the other."""
    height = TOP + len(panels) * (PANEL + GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}">',
        f"<style>{STYLE}</style>",
        f'<rect class="back" width="{WIDTH}" height="{height}"/>',
    ]
    for place, panel in enumerate(panels):
        panel.top = TOP + place * (PANEL + GAP)
        parts += panel.draw()
    return "\n".join([*parts, "</svg>", ""])
