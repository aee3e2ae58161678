"""Runs the first example of the README and checks it: what a fresh installation has to do."""

import re
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[1]

if __name__ == "__main__":
    # Kernels are read from their source, which has to be in a file.
    file = Path("first_launch_code.py")
    file.write_text(code)
    found: dict[str, object] = {}
    try:
        exec(compile(code, str(file.resolve()), "exec"), found)
    finally:
        file.unlink()
    np.testing.assert_array_equal(np.asarray(found["y"])[499:502], [0.25, 0.5, 0.25])
    assert np.shape(found["ys"]) == (8, 1000)
    print("a launch, and a batch of 8, are right")
