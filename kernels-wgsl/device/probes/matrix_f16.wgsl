// needs: f16 cooperative-matrix
// Rate of the matrix units: four chains of 16 x 16 x 16 products a subgroup, f16 operands, f32 sums. A workgroup is one subgroup.
enable f16;
enable wgpu_cooperative_matrix;
#import device/probes/params

@group(0) @binding(1) var<storage, read> x: array<f16>;          // [2, 16, 16]
@group(0) @binding(2) var<storage, read_write> y: array<f32>;    // [subgroups, 4, 16, 16]

const WG: u32 = 32u;    // tune: 4 8 16 32 64 128

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>) {
    // Sums of their own: none can stand in for another.
    let first = workgroup.x * 1024u;
    let left = coopLoadT<coop_mat16x16<f16, A>>(&x[0], 16u);
    let right = coopLoadT<coop_mat16x16<f16, B>>(&x[256], 16u);
    var a = coopLoadT<coop_mat16x16<f32, C>>(&y[first], 16u);
    var b = coopLoadT<coop_mat16x16<f32, C>>(&y[first + 256u], 16u);
    var c = coopLoadT<coop_mat16x16<f32, C>>(&y[first + 512u], 16u);
    var d = coopLoadT<coop_mat16x16<f32, C>>(&y[first + 768u], 16u);
    for (var round = 0u; round < params.rounds; round++) {
        a = coopMultiplyAdd(left, right, a);
        b = coopMultiplyAdd(left, right, b);
        c = coopMultiplyAdd(left, right, c);
        d = coopMultiplyAdd(left, right, d);
    }
    coopStoreT(a + b + c + d, &y[first], 16u);
}
