// Rate of f32 arithmetic: eight chains of fused multiply-adds an invocation, of four links each a round.
#import lab/params

@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> y: array<vec4<f32>>;

const WG: u32 = 256u;

@compute @workgroup_size(WG)
fn main(@builtin(local_invocation_index) lane: u32) {
    // A factor below one in magnitude keeps every chain finite; its sign keeps the bits moving.
    let by = -x[0];
    let plus = x[1];
    var chains: array<vec4<f32>, 8>;
    chains[0] = x[2];
    chains[1] = x[3];
    chains[2] = x[4];
    chains[3] = x[5];
    chains[4] = x[6];
    chains[5] = x[7];
    chains[6] = x[8];
    chains[7] = x[9];
    for (var round = 0u; round < params.rounds; round++) {
        chains[0] = fma(chains[0], by, plus);
        chains[1] = fma(chains[1], by, plus);
        chains[2] = fma(chains[2], by, plus);
        chains[3] = fma(chains[3], by, plus);
        chains[4] = fma(chains[4], by, plus);
        chains[5] = fma(chains[5], by, plus);
        chains[6] = fma(chains[6], by, plus);
        chains[7] = fma(chains[7], by, plus);
        chains[0] = fma(chains[0], by, plus);
        chains[1] = fma(chains[1], by, plus);
        chains[2] = fma(chains[2], by, plus);
        chains[3] = fma(chains[3], by, plus);
        chains[4] = fma(chains[4], by, plus);
        chains[5] = fma(chains[5], by, plus);
        chains[6] = fma(chains[6], by, plus);
        chains[7] = fma(chains[7], by, plus);
        chains[0] = fma(chains[0], by, plus);
        chains[1] = fma(chains[1], by, plus);
        chains[2] = fma(chains[2], by, plus);
        chains[3] = fma(chains[3], by, plus);
        chains[4] = fma(chains[4], by, plus);
        chains[5] = fma(chains[5], by, plus);
        chains[6] = fma(chains[6], by, plus);
        chains[7] = fma(chains[7], by, plus);
        chains[0] = fma(chains[0], by, plus);
        chains[1] = fma(chains[1], by, plus);
        chains[2] = fma(chains[2], by, plus);
        chains[3] = fma(chains[3], by, plus);
        chains[4] = fma(chains[4], by, plus);
        chains[5] = fma(chains[5], by, plus);
        chains[6] = fma(chains[6], by, plus);
        chains[7] = fma(chains[7], by, plus);
    }
    // The same in every workgroup.
    y[lane] = chains[0] + chains[1] + chains[2] + chains[3] + chains[4] + chains[5] + chains[6] + chains[7];
}
