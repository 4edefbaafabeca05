// Two subgroups exchange a tile through workgroup memory; a matrix product makes naga declare the Vulkan memory model.
enable f16;
enable wgpu_cooperative_matrix;

@group(0) @binding(0) var<storage, read> weights: array<f16>;
@group(0) @binding(1) var<storage, read_write> sums: array<f16>;

var<workgroup> tile: array<f16, 256>;

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) index: u32) {
    for (var i = index; i < 256u; i += 64u) {
        tile[i] = weights[255u - i];
    }
    workgroupBarrier();
    let left = coopLoad<coop_mat16x16<f16, A>>(&tile[0], 16u);
    let right = coopLoad<coop_mat16x16<f16, B>>(&weights[0], 16u);
    var sum: coop_mat16x16<f16, C>;
    sum = coopMultiplyAdd(left, right, sum);
    coopStore(sum, &sums[0], 16u);
}
