// Functions that can be left in the middle and gone on with later, each on a stack of its own.
//
// A switch saves what a call would save, without the system's help that ucontext asks for; processors other than
// x86-64 have ucontext all the same.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#if !defined(__x86_64__) && !defined(CUDA_HOST_UCONTEXT)
#define CUDA_HOST_UCONTEXT 1
#endif

#ifdef CUDA_HOST_UCONTEXT
#include <ucontext.h>
#else
// Leaves the running function at a place that it notes in *left, and goes on at another.
extern "C" void cuda_host_switch(void** left, void* other);
asm(R"(
.text
.globl cuda_host_switch
.hidden cuda_host_switch
.type cuda_host_switch, @function
cuda_host_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size cuda_host_switch, .-cuda_host_switch
)");
#endif

namespace cuda_host {

// Stacks of one size. Below each is a page that nothing may touch, for which the system keeps a note of its own;
// it has room for some ten thousands of these, so they are given back after each launch.
class Stacks {
 public:
  static constexpr size_t kSize = 256 << 10;

  char* top(size_t number) { return memory_ + (number + 1) * step_; }

  void release() {
    if (memory_ != nullptr) munmap(memory_, count_ * step_);
    memory_ = nullptr;
    count_ = 0;
  }

  void reserve(size_t count) {
    release();
    step_ = kSize + static_cast<size_t>(sysconf(_SC_PAGESIZE));
    count_ = count;
    void* made = mmap(nullptr, count * step_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made == MAP_FAILED) std::abort();
    memory_ = static_cast<char*>(made);
    for (size_t k = 0; k < count; ++k) {
      if (mprotect(top(k) - kSize, kSize, PROT_READ | PROT_WRITE) != 0) std::abort();
    }
  }

 private:
  char* memory_ = nullptr;
  size_t count_ = 0, step_ = 0;
};

// A place to go on at: in a fiber, or in who started it.
class Place {
 public:
  // The beginning of `body`, which never returns.
  void begin(void (*body)(), char* top) {
#ifdef CUDA_HOST_UCONTEXT
    getcontext(&context_);
    context_.uc_stack.ss_sp = top - Stacks::kSize;
    context_.uc_stack.ss_size = Stacks::kSize;
    makecontext(&context_, body, 0);
#else
    void** stack = reinterpret_cast<void**>(top);
    *--stack = nullptr;  // where a return address would be
    *--stack = reinterpret_cast<void*>(body);
    for (int registers = 0; registers < 6; ++registers) *--stack = nullptr;
    stack_ = stack;
#endif
  }

  // Notes this place, and goes on at the other.
  void leave_for(Place& other) {
#ifdef CUDA_HOST_UCONTEXT
    swapcontext(&context_, &other.context_);
#else
    cuda_host_switch(&stack_, other.stack_);
#endif
  }

 private:
#ifdef CUDA_HOST_UCONTEXT
  ucontext_t context_;
#else
  void* stack_ = nullptr;
#endif
};

}  // namespace cuda_host
