"""Kernels of warp-lang's that give other results in jwarp, and why that is right."""

OPERATORS = "a @wp.func named `add` or `sub` stands in for the operator in Warp; here operators are arithmetic"
LOCK = "threads that wait for each other: Warp's CPU runs one thread after the other, here they run side by side"

DIFFERENCES = {
    "examples.core.example_spin_lock:test_spinlock_counter": LOCK,
    "tests.aux_test_array_slot_operators:overloaded_slot_add_backward": OPERATORS,
    "tests.aux_test_array_slot_operators:overloaded_slot_augassign": OPERATORS,
    "tests.aux_test_array_slot_operators:overloaded_slot_sub_backward": OPERATORS,
    "tests.aux_test_array_slot_operators:update_shared_component_backward": OPERATORS,
    "tests.aux_test_array_slot_operators:update_shared_component_forward": OPERATORS,
}
