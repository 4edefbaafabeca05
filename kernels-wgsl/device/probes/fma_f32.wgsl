// Rate of f32 arithmetic: CHAINS chains of fused multiply-adds a thread, of LINKS links each a round.
#import device/probes/params

@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;          // [10]
@group(0) @binding(2) var<storage, read_write> y: array<vec4<f32>>;    // [WG]

const WG: u32 = 256u;
const CHAINS: u32 = 8u;
const LINKS: u32 = 4u;

@compute @workgroup_size(WG)
fn main(@builtin(local_invocation_index) tid: u32) {
    // A factor below one in magnitude keeps every chain finite; its sign keeps the bits moving.
    let by = -x[0];
    let plus = x[1];
    var chains: array<vec4<f32>, CHAINS>;
    for (var c = 0u; c < CHAINS; c++) {             // unroll
        chains[c] = x[2u + c];
    }
    for (var round = 0u; round < params.rounds; round++) {
        for (var link = 0u; link < LINKS; link++) { // unroll
            for (var c = 0u; c < CHAINS; c++) {     // unroll
                chains[c] = fma(chains[c], by, plus);
            }
        }
    }
    var sum: vec4<f32>;
    for (var c = 0u; c < CHAINS; c++) {             // unroll
        sum += chains[c];
    }
    // The same in every workgroup.
    y[tid] = sum;
}
