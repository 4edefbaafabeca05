// Rate of f16 arithmetic: eight chains of fused multiply-adds an invocation, of four links each a round.
enable f16;
#import lab/params

@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> y: array<vec4<f32>>;

alias T = vec2<f16>;    // tune: vec2<f16> vec4<f16>

const WG: u32 = 256u;

// Components that differ: none can stand in for another.
fn start(i: u32) -> T {
    var t = T(f16(x[i].x));
    t.y = f16(x[i].y);
    return t;
}

@compute @workgroup_size(WG)
fn main(@builtin(local_invocation_index) lane: u32) {
    // A factor below one in magnitude keeps every chain finite; its sign keeps the bits moving.
    let by = -start(0u);
    let plus = start(1u);
    var chains: array<T, 8>;
    chains[0] = start(2u);
    chains[1] = start(3u);
    chains[2] = start(4u);
    chains[3] = start(5u);
    chains[4] = start(6u);
    chains[5] = start(7u);
    chains[6] = start(8u);
    chains[7] = start(9u);
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
    let sum = chains[0] + chains[1] + chains[2] + chains[3] + chains[4] + chains[5] + chains[6] + chains[7];
    // The same in every workgroup.
    y[lane] = vec4<f32>(vec2<f32>(sum.xy), 0.0, 0.0);
}
