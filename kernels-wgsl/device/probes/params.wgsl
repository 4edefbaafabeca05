// The uniform block of every probe; must match wgoose_kernels::probes::Params.

struct Params {
    rounds: u32,        // how often the work is repeated within the dispatch
    elements: u32,      // of x, where the kernel walks through all of it
    workgroups: u32,    // how many wait for one another at a barrier
    spins: u32,         // looks at a barrier's counter before a workgroup gives up
}
@group(0) @binding(0) var<uniform> params: Params;    // [1]
