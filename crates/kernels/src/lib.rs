//! How an op can be computed: WGSL variants, tunables, specialisation, the CPU reference, plans.
