// Operations of a whole block on tiles: products, reductions, scans, solves and copies.
//
// Every thread of a block of NT threads calls a routine, after a barrier; what it leaves in memory may be read at
// once, since it ends with one. NT is any number from 1 to 1024, and a block has its threads along x. Tiles are
// row-major, in shared memory or elsewhere.
#pragma once

#include "jwarp.cuh"
#include "tile_add.cuh"
#include "tile_copy.cuh"
#include "tile_gemm.cuh"
#include "tile_reduce.cuh"
#include "tile_solve.cuh"
