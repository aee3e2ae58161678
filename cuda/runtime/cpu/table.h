// The process-wide table of compiled kernels, by fingerprint.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "core/plan.h"
#include "cpu/entry.h"

namespace jwarp::cpu {

struct Kernel {
  Kernel(std::string name, Plan decoded, std::vector<std::string> texts)
      : fingerprint(std::move(name)), plan(std::move(decoded)), failures(std::move(texts)) {}

  std::atomic<Entry>& entry(Version version) { return version == Version::kFast ? fast : checked; }

  const std::string fingerprint;
  const Plan plan;
  const std::vector<std::string> failures;  // what a failed check at site 1, 2, … means
  std::atomic<Entry> fast{nullptr};
  std::atomic<Entry> checked{nullptr};
};

// Null when the table has no such kernel. Kernels are never freed: running launches point at them.
Kernel* find_kernel(const std::string& fingerprint);

// Adds a kernel, or those entries of a known one that are not null. Throws Fault when the fingerprint
// is known with another plan.
void register_kernel(const std::string& fingerprint, Plan plan, std::vector<std::string> failures, Entry fast,
                     Entry checked);

}  // namespace jwarp::cpu
