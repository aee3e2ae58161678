"""`wp.utils`: what programs do with whole arrays besides launches."""

from jwarp.api.array_functions import array_cast as array_cast
from jwarp.api.array_functions import array_inner as array_inner
from jwarp.api.array_functions import array_scan as array_scan
from jwarp.api.array_functions import array_sum as array_sum
from jwarp.api.array_sorting import radix_sort_pairs as radix_sort_pairs
from jwarp.api.array_sorting import runlength_encode as runlength_encode
from jwarp.api.array_sorting import segmented_sort_pairs as segmented_sort_pairs
from jwarp.api.graph_coloring import graph_coloring_assign as graph_coloring_assign
from jwarp.api.graph_coloring import graph_coloring_balance as graph_coloring_balance
from jwarp.api.graph_coloring import graph_coloring_get_groups as graph_coloring_get_groups
from jwarp.api.map import create_warp_function as create_warp_function
from jwarp.api.modes import GraphColoringAlgorithm as GraphColoringAlgorithm
