"""`wp.optim`: optimizers, and `wp.optim.linear`, which solves systems of linear equations."""

from jwarp.optim import linear as linear
from jwarp.optim.steps import SGD as SGD
from jwarp.optim.steps import Adam as Adam
