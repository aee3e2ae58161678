// The numbers of this module that Python has to know as well, for a test that compares them.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace jwarp {

// By group and name. Python's are in jwarp/wire.py, and in the enumerations of roles and covers.
std::map<std::string, std::map<std::string, int64_t>> wire_format();

}  // namespace jwarp
