// Cooperative groups of a block and of warps, for handwritten kernels, where CUDA's own headers are not installed.
//
// The names are those of <cooperative_groups.h>. What goes beyond a block (a barrier of the grid, clusters) is left out.
#pragma once

namespace cooperative_groups {

#define JW_GROUP __device__ __forceinline__

template <class T> struct plus { JW_GROUP T operator()(T x, T y) const { return x + y; } };
template <class T> struct less { JW_GROUP T operator()(T x, T y) const { return y < x ? y : x; } };
template <class T> struct greater { JW_GROUP T operator()(T x, T y) const { return x < y ? y : x; } };
template <class T> struct bit_and { JW_GROUP T operator()(T x, T y) const { return x & y; } };
template <class T> struct bit_or { JW_GROUP T operator()(T x, T y) const { return x | y; } };
template <class T> struct bit_xor { JW_GROUP T operator()(T x, T y) const { return x ^ y; } };

struct thread_block {
  JW_GROUP static void sync() { __syncthreads(); }
  JW_GROUP static dim3 group_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
  JW_GROUP static dim3 thread_index() { return dim3(threadIdx.x, threadIdx.y, threadIdx.z); }
  JW_GROUP static dim3 group_dim() { return dim3(blockDim.x, blockDim.y, blockDim.z); }
  JW_GROUP static dim3 dim_threads() { return group_dim(); }
  JW_GROUP static unsigned num_threads() { return blockDim.x * blockDim.y * blockDim.z; }
  JW_GROUP static unsigned size() { return num_threads(); }
  JW_GROUP static unsigned thread_rank() {
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  }
};

struct grid_group {
  JW_GROUP static bool is_valid() { return false; }
  JW_GROUP static dim3 group_dim() { return dim3(gridDim.x, gridDim.y, gridDim.z); }
  JW_GROUP static dim3 dim_blocks() { return group_dim(); }
  JW_GROUP static unsigned long long num_blocks() { return (unsigned long long)gridDim.x * gridDim.y * gridDim.z; }
  JW_GROUP static unsigned long long block_rank() {
    return blockIdx.x + (unsigned long long)gridDim.x * (blockIdx.y + (unsigned long long)gridDim.y * blockIdx.z);
  }
  JW_GROUP static unsigned long long num_threads() { return num_blocks() * thread_block::num_threads(); }
  JW_GROUP static unsigned long long size() { return num_threads(); }
  JW_GROUP static unsigned long long thread_rank() {
    return block_rank() * thread_block::num_threads() + thread_block::thread_rank();
  }
};

// Some lanes of a warp, by their mask.
struct coalesced_group {
  unsigned mask;
  JW_GROUP void sync() const { __syncwarp(mask); }
  JW_GROUP unsigned num_threads() const { return __popc(mask); }
  JW_GROUP unsigned size() const { return num_threads(); }
  JW_GROUP unsigned thread_rank() const {
    return __popc(mask & ((1u << (thread_block::thread_rank() & 31)) - 1));
  }
  JW_GROUP int any(int value) const { return __any_sync(mask, value); }
  JW_GROUP int all(int value) const { return __all_sync(mask, value); }
  template <class T> JW_GROUP T shfl(T value, unsigned source) const {
    return __shfl_sync(mask, value, __fns(mask, 0, source + 1));
  }
  JW_GROUP unsigned ballot(int value) const {  // with a bit for each thread of the group
    const unsigned votes = __ballot_sync(mask, value);
    unsigned packed = 0;
    for (unsigned rest = mask, rank = 0; rest; rest &= rest - 1, ++rank) packed |= (votes >> (__ffs(rest) - 1) & 1u) << rank;
    return packed;
  }
};

// `N` neighbouring threads of a block.
template <unsigned N, class Parent = void> struct thread_block_tile {
  static_assert(N > 0 && N <= 32 && (N & (N - 1)) == 0, "tiles have 1, 2, 4, 8, 16 or 32 threads here");
  static constexpr unsigned lanes = N == 32 ? 0xffffffffu : (1u << (N & 31)) - 1;
  JW_GROUP static unsigned first() { return thread_block::thread_rank() & 31 & ~(N - 1); }
  JW_GROUP static unsigned mask() { return lanes << first(); }
  JW_GROUP static void sync() { __syncwarp(mask()); }
  JW_GROUP static constexpr unsigned num_threads() { return N; }
  JW_GROUP static constexpr unsigned size() { return N; }
  JW_GROUP static unsigned thread_rank() { return thread_block::thread_rank() & (N - 1); }
  JW_GROUP static unsigned meta_group_size() { return (thread_block::num_threads() + N - 1) / N; }
  JW_GROUP static unsigned meta_group_rank() { return thread_block::thread_rank() / N; }
  template <class T> JW_GROUP static T shfl(T value, int source) { return __shfl_sync(mask(), value, source, N); }
  template <class T> JW_GROUP static T shfl_up(T value, unsigned by) { return __shfl_up_sync(mask(), value, by, N); }
  template <class T> JW_GROUP static T shfl_down(T value, unsigned by) { return __shfl_down_sync(mask(), value, by, N); }
  template <class T> JW_GROUP static T shfl_xor(T value, unsigned by) { return __shfl_xor_sync(mask(), value, by, N); }
  JW_GROUP static int any(int value) { return __any_sync(mask(), value); }
  JW_GROUP static int all(int value) { return __all_sync(mask(), value); }
  JW_GROUP static unsigned ballot(int value) { return __ballot_sync(mask(), value) >> first() & lanes; }
};

JW_GROUP thread_block this_thread_block() { return {}; }
JW_GROUP grid_group this_grid() { return {}; }
JW_GROUP coalesced_group coalesced_threads() { return {__activemask()}; }
template <unsigned N, class P> JW_GROUP thread_block_tile<N, P> tiled_partition(const P&) { return {}; }

template <class G> JW_GROUP void sync(const G& group) { group.sync(); }
template <class G> JW_GROUP auto thread_rank(const G& group) { return group.thread_rank(); }

// In all threads of the group.
template <unsigned N, class P, class T, class Op> JW_GROUP T reduce(const thread_block_tile<N, P>& tile, T value, Op op) {
  for (unsigned distance = N / 2; distance > 0; distance /= 2) value = op(value, tile.shfl_xor(value, distance));
  return value;
}
template <class T, class Op> JW_GROUP T reduce(const coalesced_group& group, T value, Op op) {
  T all = group.shfl(value, 0);
  for (unsigned k = 1; k < group.size(); ++k) all = op(all, group.shfl(value, k));
  return all;
}

#undef JW_GROUP

}  // namespace cooperative_groups
