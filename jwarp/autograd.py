"""`wp.autograd`: Jacobians of kernels and functions of arrays, and checks of gradients."""

from jwarp.api.autograd import FunctionMetadata as FunctionMetadata
from jwarp.api.autograd import gradcheck as gradcheck
from jwarp.api.autograd import gradcheck_tape as gradcheck_tape
from jwarp.api.autograd import jacobian as jacobian
from jwarp.api.autograd import jacobian_fd as jacobian_fd
from jwarp.api.autograd import jacobian_plot as jacobian_plot
