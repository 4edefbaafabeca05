// needs: subgroups f16 cooperative-matrix
// sums: 16 in a step
// Fragments of 16 x 16. The tiles in workgroup memory are stored as words and loaded as f16: a twin `..._as_f16` or
// `..._as_f32` stands for the same memory, once crates/runtime/src/pipelines/spirv/reinterpret.rs has patched the accesses.
// requires: const LD, LIMBS, STAGES, TILE_W, TILE_X, var y
enable f16;
enable wgpu_cooperative_matrix;

const FRAGMENT: u32 = 16u;
alias FragmentX = coop_mat16x16<f16, A>;
alias FragmentW = coop_mat16x16<f16, B>;
alias FragmentSum = coop_mat16x16<f32, C>;

var<workgroup> tile_x: array<vec4<u32>, STAGES * LIMBS * TILE_X>;
var<workgroup> tile_x_as_f16: array<vec4<f16>, 1>;
var<workgroup> tile_w: array<vec4<u32>, STAGES * TILE_W>;
var<workgroup> tile_w_as_f16: array<vec4<f16>, 1>;
var<workgroup> tile_w_as_f32: array<vec4<f32>, 1>;

fn stage_x_half8(at: u32, values: vec4<u32>) {
    tile_x[at] = values;
}

fn stage_w_half8(at: u32, values: vec4<u32>) {
    tile_w[at] = values;
}

fn load_fragment_x(at: u32) -> FragmentX {
    return coopLoadT<FragmentX>(&tile_x_as_f16[at], LD);
}

// Rows of the matrix are columns of the fragment.
fn load_fragment_w(at: u32) -> FragmentW {
    return coopLoad<FragmentW>(&tile_w_as_f16[at], LD);
}

// Sums in workgroup memory, in the place of the weights: `at` counts vec4s, rows follow each other.
const SUMS_ROOM: u32 = STAGES * TILE_W;

fn stage_sums(at: u32, sums: FragmentSum) {
    coopStoreT(sums, &tile_w_as_f32[at], 4u);
}

fn staged_sums(at: u32) -> vec4<f32> {
    return bitcast<vec4<f32>>(tile_w[at]);
}

fn load_sums(at: u32, stride: u32) -> FragmentSum {
    let ld = stride;
    return coopLoadT<FragmentSum>(&y[at], ld);
}

fn store_sums(at: u32, stride: u32, sums: FragmentSum) {
    let ld = stride;
    coopStoreT(sums, &y[at], ld);
}
