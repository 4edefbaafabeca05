// needs: f16
// Rate of f16 arithmetic: CHAINS chains of fused multiply-adds a thread, of LINKS links each a round.
enable f16;
#import device/probes/params

@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;          // [10]
@group(0) @binding(2) var<storage, read_write> y: array<vec4<f32>>;    // [WG]

alias T = vec2<f16>;    // tune: vec2<f16> vec4<f16>

const WG: u32 = 256u;
const CHAINS: u32 = 8u;
const LINKS: u32 = 4u;

// Components that differ: none can stand in for another.
fn start(i: u32) -> T {
    var t = T(f16(x[i].x));
    t.y = f16(x[i].y);
    return t;
}

@compute @workgroup_size(WG)
fn main(@builtin(local_invocation_index) tid: u32) {
    // A factor below one in magnitude keeps every chain finite; its sign keeps the bits moving.
    let by = -start(0u);
    let plus = start(1u);
    var chains: array<T, CHAINS>;
    for (var c = 0u; c < CHAINS; c++) {             // unroll
        chains[c] = start(2u + c);
    }
    for (var round = 0u; round < params.rounds; round++) {
        for (var link = 0u; link < LINKS; link++) { // unroll
            for (var c = 0u; c < CHAINS; c++) {     // unroll
                chains[c] = fma(chains[c], by, plus);
            }
        }
    }
    var sum: T;
    for (var c = 0u; c < CHAINS; c++) {             // unroll
        sum += chains[c];
    }
    // The same in every workgroup.
    y[tid] = vec4<f32>(vec2<f32>(sum.xy), 0.0, 0.0);
}
