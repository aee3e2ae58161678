"""`python -m jwarp`: prints what is installed, what code is made for, and what is missing."""

from jwarp.api.report import report

if __name__ == "__main__":
    print(report())
