"""The table of results of tests on a GPU, from a report of pytest."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from on_gpu import table

REPORT = """<?xml version="1.0"?><testsuites><testsuite>
<testcase name="test_fast[saxpy]" time="0.512"><system-out>saxpy 12 us
copy | 11 us</system-out></testcase>
<testcase name="test_slow" time="2"><failure message="assert 1 == 2">trace</failure></testcase>
<testcase name="test_other" time="0"><skipped message="no GPU: none found"/></testcase>
</testsuite></testsuites>"""


def test_rows_of_all_outcomes(tmp_path):
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    text = table(report)
    assert ": 1 failed, 1 passed, 1 skipped\n" in text
    assert "| test_fast[saxpy] | passed | 0.51 | saxpy 12 us copy \\| 11 us |" in text
    assert "| test_slow | failed | 2.00 | assert 1 == 2 |" in text
    assert "| test_other | skipped | 0.00 | no GPU: none found |" in text
