// needs: subgroups f16 cooperative-matrix-8x8
// plan-only: no device with matrices of 8 x 8 was measured
// sums: 8 in a step
// Fragments of 8 x 8, in plain WGSL. Tiles are scalars: Metal loads and stores matrices through pointers to their components.
// requires: const FRAGMENTS, LANES, LD, LIMBS, STAGES, SUBGROUPS, TILE_W, TILE_X, UNROLL, var y, fn bits_as_half2
enable f16;
enable wgpu_cooperative_matrix;

const FRAGMENT: u32 = 8u;
alias FragmentX = coop_mat8x8<f16, A>;
alias FragmentW = coop_mat8x8<f16, B>;
alias FragmentSum = coop_mat8x8<f32, C>;

var<workgroup> tile_x: array<f16, STAGES * LIMBS * TILE_X * 8u>;
var<workgroup> tile_w: array<f16, STAGES * TILE_W * 8u>;
var<workgroup> tile_sums: array<f32, SUMS_ROOM * 4u>;

const_assert FRAGMENTS * UNROLL <= 2u * LANES;      // more than compilers for these devices unroll in good time

fn stage_x_half8(at: u32, values: vec4<u32>) {
    for (var i = 0u; i < 4u; i++) {         // unroll
        let pair = bits_as_half2(values[i]);
        tile_x[at * 8u + 2u * i] = pair.x;
        tile_x[at * 8u + 2u * i + 1u] = pair.y;
    }
}

fn stage_w_half8(at: u32, values: vec4<u32>) {
    for (var i = 0u; i < 4u; i++) {         // unroll
        let pair = bits_as_half2(values[i]);
        tile_w[at * 8u + 2u * i] = pair.x;
        tile_w[at * 8u + 2u * i + 1u] = pair.y;
    }
}

fn load_fragment_x(at: u32) -> FragmentX {
    return coopLoadT<FragmentX>(&tile_x[at * 8u], LD * 8u);
}

// Rows of the matrix are columns of the fragment.
fn load_fragment_w(at: u32) -> FragmentW {
    return coopLoad<FragmentW>(&tile_w[at * 8u], LD * 8u);
}

// Sums in workgroup memory, a fragment of each subgroup at once: `at` counts vec4s, rows follow each other.
const SUMS_ROOM: u32 = SUBGROUPS * FRAGMENT * FRAGMENT / 4u;

fn stage_sums(at: u32, sums: FragmentSum) {
    coopStoreT(sums, &tile_sums[at * 4u], 8u);
}

fn staged_sums(at: u32) -> vec4<f32> {
    return vec4(tile_sums[at * 4u], tile_sums[at * 4u + 1u], tile_sums[at * 4u + 2u], tile_sums[at * 4u + 3u]);
}

fn load_sums(at: u32, stride: u32) -> FragmentSum {
    let ld = stride;
    return coopLoadT<FragmentSum>(&y[at], ld);
}

fn store_sums(at: u32, stride: u32, sums: FragmentSum) {
    let ld = stride;
    coopStoreT(sums, &y[at], ld);
}
