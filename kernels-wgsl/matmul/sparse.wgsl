// Products with a matrix in columns, of which a column that meets a zero of x is not read. A workgroup takes one token and
// EIGHTS times eight rows. Its columns belong to teams of EIGHTS invocations: each team lists those of its own that meet
// no zero, in their order, and walks down its list with an invocation for every eight rows; AHEAD columns are on their way
// at once. The teams' sums are added in pairs. Which team has a column does not depend on x, so that a sum without the
// zeros is the sum with them (SKIP = 0), to the bit. SLABS lists one after the other need less workgroup memory.
#import params
#import unit
#import epilogue
#import weight/f16c as w binding 2

const K: u32 = 256u;            // op: k
const WG: u32 = 256u;           // tune: 64 256 512
const EIGHTS: u32 = 2u;         // tune: 1 2 4
const AHEAD: u32 = 4u;          // tune: 4 8
const SLABS: u32 = 2u;          // tune: 1 2 4
const SKIP: u32 = 1u;           // tune: 1 0
const TEAMS: u32 = WG / EIGHTS;
// Quads of x in a slab, and of them to one invocation.
const QUADS: u32 = (K / 4u + SLABS - 1u) / SLABS;
const OWN: u32 = (QUADS + WG - 1u) / WG;
// Columns of a team in a slab; one more, so that teams fall into different banks.
const ROOM: u32 = OWN * 4u * EIGHTS + 1u;

@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;

var<workgroup> list: array<u32, TEAMS * ROOM>;
var<workgroup> counts: array<u32, WG>;
var<workgroup> upper_sums: array<vec4<f32>, WG>;
var<workgroup> lower_sums: array<vec4<f32>, WG>;

fn counts_for(x: vec4<f32>) -> vec4<bool> {
    return (x != vec4(0.0)) | vec4(SKIP == 0u);
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let unit = unit_of(workgroup, grid);
    let eights = w_eights();
    let row_blocks = (eights + EIGHTS - 1u) / EIGHTS;
    let token = unit / row_blocks;
    if token >= params.rows {
        return;
    }
    let x_row = token * (K / 4u);
    let first_eight = unit % row_blocks * EIGHTS;
    // Past the last row the last ones are read again; their sums are not stored.
    let eight = min(first_eight + lane % EIGHTS, eights - 1u);
    let team = lane / EIGHTS;
    var sums: mat2x4<f32>;
    for (var slab = 0u; slab < SLABS; slab++) {
        let slab_end = min((slab + 1u) * QUADS, K / 4u);
        let begin = min(slab * QUADS + lane * OWN, slab_end);
        let end = min(begin + OWN, slab_end);
        var count = 0u;
        for (var quad = begin; quad < end; quad++) {
            count += u32(dot(vec4<f32>(counts_for(x[x_row + quad])), vec4(1.0)));
        }
        counts[lane] = count;
        workgroupBarrier();
        var at = team * ROOM;
        var listed = 0u;
        for (var i = 0u; i < EIGHTS; i++) {
            let of_lane = counts[team * EIGHTS + i];
            at += select(0u, of_lane, i < lane % EIGHTS);
            listed += of_lane;
        }
        for (var quad = begin; quad < end; quad++) {
            let taken = counts_for(x[x_row + quad]);
            for (var i = 0u; i < 4u; i++) {                 // unroll
                if taken[i] {
                    list[at] = quad * 4u + i;
                    at += 1u;
                }
            }
        }
        workgroupBarrier();
        for (var next = 0u; next < listed; next += AHEAD) {
            var factors: array<f32, AHEAD>;
            var columns: array<mat2x4<f32>, AHEAD>;
            for (var i = 0u; i < AHEAD; i++) {              // unroll
                // Past the end of the list a column is read that is multiplied by zero.
                let column = list[team * ROOM + min(next + i, listed - 1u)];
                factors[i] = select(0.0, x[x_row + column / 4u][column % 4u], next + i < listed);
                columns[i] = w_eight(column, eight);
            }
            for (var i = 0u; i < AHEAD; i++) {              // unroll
                sums += factors[i] * columns[i];
            }
        }
        // The counts and the list are free for the next slab.
        workgroupBarrier();
    }
    upper_sums[lane] = sums[0];
    lower_sums[lane] = sums[1];
    for (var half = WG / 2u; half >= EIGHTS; half /= 2u) {
        workgroupBarrier();
        if lane < half {
            upper_sums[lane] += upper_sums[lane + half];
            lower_sums[lane] += lower_sums[lane + half];
        }
    }
    workgroupBarrier();
    let row = first_eight * 8u + lane;
    if lane < EIGHTS * 8u && row < params.window {
        let own = select(upper_sums[lane / 8u], lower_sums[lane / 8u], (lane & 4u) == 4u);
        store(token * params.m + params.first + row, own[lane % 4u]);
    }
}
