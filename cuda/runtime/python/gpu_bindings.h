// The CUDA part of the Python module jwarp._native.
#pragma once

#include <pybind11/pybind11.h>

namespace jwarp::gpu {

void add_bindings(pybind11::module_& m);

}  // namespace jwarp::gpu
