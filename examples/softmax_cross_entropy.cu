// The loss of a classifier in one pass over the logits, and its adjoint in another; a block to each row.
#include "jwarp/block.cuh"

// losses[i] = log(sum_j exp(logits[i, j])) - logits[i, labels[i]]; the logarithm is kept for the adjoint.
template <class T>
__global__ void softmax_cross_entropy(jw::array<const T, 2> logits, const int* labels, T* losses, T* log_sums) {
  const int row = blockIdx.x, classes = logits.shape(1);
  T highest = jw::lowest<T>();
  for (int j = threadIdx.x; j < classes; j += blockDim.x) highest = jw_max(highest, logits(row, j));
  highest = jw::block_reduce<jw::max>(highest);
  T sum = 0;
  for (int j = threadIdx.x; j < classes; j += blockDim.x) sum += exp(logits(row, j) - highest);
  sum = jw::block_reduce<jw::sum>(sum);
  if (threadIdx.x == 0) {
    log_sums[row] = highest + log(sum);
    losses[row] = log_sums[row] - logits(row, labels[row]);
  }
}

// The softmax is computed anew from the logarithm: it is never in memory.
template <class T>
__global__ void softmax_cross_entropy_adjoint(jw::array<const T, 2> logits, const int* labels, const T* log_sums,
                                              const T* adj_losses, const T* adj_log_sums, jw::array<T, 2> adj_logits) {
  const int row = blockIdx.x;
  for (int j = threadIdx.x; j < logits.shape(1); j += blockDim.x) {
    const T softmax = exp(logits(row, j) - log_sums[row]);
    const T chosen = j == labels[row] ? adj_losses[row] : T(0);
    adj_logits(row, j) = softmax * (adj_losses[row] + adj_log_sums[row]) - chosen;
  }
}
