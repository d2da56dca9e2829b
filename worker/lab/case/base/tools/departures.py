"""Prints the timetable:  python tools/departures.py ROUTE|all FIRST LAST"""

import sys
from datetime import date, timedelta

from ferrytimes.render import page
from ferrytimes.routes import load


def main(key: str, first: str, last: str) -> None:
    routes = list(load().values()) if key == "all" else [load()[key]]
    day = date.fromisoformat(first)
    while day <= date.fromisoformat(last):
        print(page(routes, day))
        day += timedelta(days=1)


if __name__ == "__main__":
    main(*sys.argv[1:])
