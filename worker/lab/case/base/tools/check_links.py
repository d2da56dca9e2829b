"""Opens every link in the files given on the command line."""

import re
import sys
import urllib.request
from pathlib import Path

LINK = re.compile(r"https://[^\s)\"]+")


def main(paths: list[str]) -> int:
    broken = 0
    for path in paths:
        for link in LINK.findall(Path(path).read_text("utf-8")):
            try:
                urllib.request.urlopen(link, timeout=10).close()
            except OSError as error:
                broken += 1
                print(f"ERROR {path}: {link}: {error}")
            else:
                print(f"ok    {path}: {link}")
    print(f"{broken} broken links" if broken else "all links work")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
