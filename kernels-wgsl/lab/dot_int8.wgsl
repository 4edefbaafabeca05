// Rate of int8 dot products: 32 a round and invocation, added up in eight sums.
#import lab/params

@group(0) @binding(1) var<storage, read> x: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> y: array<vec4<u32>>;

const WG: u32 = 256u;

@compute @workgroup_size(WG)
fn main(@builtin(local_invocation_index) lane: u32) {
    let by = array(x[0], x[1]);
    var sums: array<vec4<i32>, 2>;
    for (var round = 0u; round < params.rounds; round++) {
        // Another operand each time: nothing can be computed ahead.
        let q0 = lane + 4u * round;
        sums[0].x += dot4I8Packed(q0, by[0].x);
        sums[0].y += dot4I8Packed(q0, by[0].y);
        sums[0].z += dot4I8Packed(q0, by[0].z);
        sums[0].w += dot4I8Packed(q0, by[0].w);
        sums[1].x += dot4I8Packed(q0, by[1].x);
        sums[1].y += dot4I8Packed(q0, by[1].y);
        sums[1].z += dot4I8Packed(q0, by[1].z);
        sums[1].w += dot4I8Packed(q0, by[1].w);
        let q1 = lane + 4u * round + 1u;
        sums[0].x += dot4I8Packed(q1, by[0].x);
        sums[0].y += dot4I8Packed(q1, by[0].y);
        sums[0].z += dot4I8Packed(q1, by[0].z);
        sums[0].w += dot4I8Packed(q1, by[0].w);
        sums[1].x += dot4I8Packed(q1, by[1].x);
        sums[1].y += dot4I8Packed(q1, by[1].y);
        sums[1].z += dot4I8Packed(q1, by[1].z);
        sums[1].w += dot4I8Packed(q1, by[1].w);
        let q2 = lane + 4u * round + 2u;
        sums[0].x += dot4I8Packed(q2, by[0].x);
        sums[0].y += dot4I8Packed(q2, by[0].y);
        sums[0].z += dot4I8Packed(q2, by[0].z);
        sums[0].w += dot4I8Packed(q2, by[0].w);
        sums[1].x += dot4I8Packed(q2, by[1].x);
        sums[1].y += dot4I8Packed(q2, by[1].y);
        sums[1].z += dot4I8Packed(q2, by[1].z);
        sums[1].w += dot4I8Packed(q2, by[1].w);
        let q3 = lane + 4u * round + 3u;
        sums[0].x += dot4I8Packed(q3, by[0].x);
        sums[0].y += dot4I8Packed(q3, by[0].y);
        sums[0].z += dot4I8Packed(q3, by[0].z);
        sums[0].w += dot4I8Packed(q3, by[0].w);
        sums[1].x += dot4I8Packed(q3, by[1].x);
        sums[1].y += dot4I8Packed(q3, by[1].y);
        sums[1].z += dot4I8Packed(q3, by[1].z);
        sums[1].w += dot4I8Packed(q3, by[1].w);
    }
    // The same in every workgroup.
    y[lane] = vec4<u32>(sums[0] ^ sums[1]);
}
