"""`import jwarp.as_warp` has `import warp` give jwarp in this process, under Warp's names.

It comes before anything imports warp. `python -m jwarp run` does it for a program that is not to be changed.
"""

from jwarp.programs.modules import install as _install

_install()
