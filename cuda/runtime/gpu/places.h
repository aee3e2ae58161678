// Where the kernels are written that this process has lowered: errors say it, and the calls of programs do not, so that
// programs are the same wherever a kernel stands in its file.
#pragma once

#include <string>
#include <string_view>

namespace jwarp::gpu {

// Of kernels with the same code the last one of a file counts: they are one that was moved. Those of other files are
// copies, which share their image: nobody can tell whose launch failed.
void note_place(std::string_view image, std::string_view entry, const std::string& place);

// "file:line", or of copies "file:line or file:line"; empty for a kernel that another process has lowered, or that is
// forgotten.
std::string place_of(std::string_view image, std::string_view entry);

}  // namespace jwarp::gpu
