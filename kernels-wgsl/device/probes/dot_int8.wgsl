// Rate of int8 dot products: 32 a round and thread, added up in eight sums.
#import device/probes/params

@group(0) @binding(1) var<storage, read> x: array<vec4<u32>>;          // [10]
@group(0) @binding(2) var<storage, read_write> y: array<vec4<u32>>;    // [WG]

const WG: u32 = 256u;
const LINKS: u32 = 4u;

@compute @workgroup_size(WG)
fn main(@builtin(local_invocation_index) tid: u32) {
    let by = array(x[0], x[1]);
    var sums: array<vec4<i32>, 2>;
    for (var round = 0u; round < params.rounds; round++) {
        for (var link = 0u; link < LINKS; link++) {     // unroll
            // Another operand each time: nothing can be computed ahead.
            let q = tid + LINKS * round + link;
            for (var s = 0u; s < 2u; s++) {             // unroll
                sums[s].x += dot4I8Packed(q, by[s].x);
                sums[s].y += dot4I8Packed(q, by[s].y);
                sums[s].z += dot4I8Packed(q, by[s].z);
                sums[s].w += dot4I8Packed(q, by[s].w);
            }
        }
    }
    // The same in every workgroup.
    y[tid] = vec4<u32>(sums[0] ^ sums[1]);
}
