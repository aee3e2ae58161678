"""`python -m jwarp` prints what is installed and what is missing; `python -m jwarp run` runs a Warp program."""

import sys

import jwarp.public  # noqa: F401 whose caches the report tells of
from jwarp.api.report import report
from jwarp.programs.run import USAGE, run

if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            print(report())
        case ["run", *arguments]:
            run(arguments)
        case _:
            print(f"usage: python -m jwarp\n{USAGE.replace('usage:', '      ')}", file=sys.stderr)
            raise SystemExit(2)
