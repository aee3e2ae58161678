"""`wp.sparse`: sparse matrices of blocks, by Warp's names, on mutable arrays and inside JAX."""

from jwarp.sparse.arithmetic import bsr_axpy as bsr_axpy
from jwarp.sparse.arithmetic import bsr_axpy_work_arrays as bsr_axpy_work_arrays
from jwarp.sparse.assembly import bsr_compress as bsr_compress
from jwarp.sparse.assembly import bsr_from_triplets as bsr_from_triplets
from jwarp.sparse.assembly import bsr_set_from_triplets as bsr_set_from_triplets
from jwarp.sparse.copies import bsr_assign as bsr_assign
from jwarp.sparse.copies import bsr_copy as bsr_copy
from jwarp.sparse.copies import bsr_set_transpose as bsr_set_transpose
from jwarp.sparse.copies import bsr_transposed as bsr_transposed
from jwarp.sparse.diagonals import bsr_diag as bsr_diag
from jwarp.sparse.diagonals import bsr_get_diag as bsr_get_diag
from jwarp.sparse.diagonals import bsr_identity as bsr_identity
from jwarp.sparse.diagonals import bsr_set_diag as bsr_set_diag
from jwarp.sparse.diagonals import bsr_set_identity as bsr_set_identity
from jwarp.sparse.mapping import BsrTripletMap as BsrTripletMap
from jwarp.sparse.mapping import bsr_set_from_mapped_values as bsr_set_from_mapped_values
from jwarp.sparse.matrix import BSR_STATUS_ROW_CAPACITY_EXCEEDED as BSR_STATUS_ROW_CAPACITY_EXCEEDED
from jwarp.sparse.matrix import BSR_STATUS_SUCCESS as BSR_STATUS_SUCCESS
from jwarp.sparse.matrix import OPERATIONS as _OPERATIONS
from jwarp.sparse.matrix import BsrMatrix as BsrMatrix
from jwarp.sparse.matrix import bsr_matrix_t as bsr_matrix_t
from jwarp.sparse.products import bsr_mm as bsr_mm
from jwarp.sparse.products import bsr_mm_work_arrays as bsr_mm_work_arrays
from jwarp.sparse.rows import bsr_block_index as bsr_block_index
from jwarp.sparse.rows import bsr_row_index as bsr_row_index
from jwarp.sparse.scaling import bsr_scale as bsr_scale
from jwarp.sparse.storage import bsr_set_zero as bsr_set_zero
from jwarp.sparse.storage import bsr_zeros as bsr_zeros
from jwarp.sparse.vectors import bsr_mv as bsr_mv

_OPERATIONS.update((each.__name__, each) for each in (bsr_axpy, bsr_copy, bsr_mm, bsr_mv, bsr_scale, bsr_transposed))
