"""`python -m jwarp` prints what is installed, with `caches` what memory keeps; `python -m jwarp run` runs a program."""

import sys

import jwarp.public  # noqa: F401 whose caches the report tells of
from jwarp.api.report import report, report_of_caches
from jwarp.programs.run import USAGE, run

if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            print(report())
        case ["caches"]:
            print(report_of_caches())
        case ["run", *arguments]:
            run(arguments)
        case _:
            print(f"usage: python -m jwarp [caches]\n{USAGE.replace('usage:', '      ')}", file=sys.stderr)
            raise SystemExit(2)
