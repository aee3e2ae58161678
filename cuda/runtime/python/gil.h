// Letting go of Python's lock while a kernel runs.
#pragma once

#include <Python.h>
#include <unistd.h>

namespace jwarp {

// Takes the lock back at the end of its scope. A daemon thread that asks for the lock while the interpreter
// ends is unwound by force before Python 3.14, through destructors that may not throw and without the lock
// that they need. As later Pythons do, such a thread sleeps until the process is gone.
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  ~WithoutGil() {
    try {
      PyEval_RestoreThread(state_);
    } catch (...) {
      for (;;) pause();
    }
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

}  // namespace jwarp
