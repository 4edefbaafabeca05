// idea: THREADS_PER_ROW lanes share ROWS rows of an adapter; a packed load is unpacked once for TOKENS tokens.
// needs: subgroups
// grid: 4 * ceil_div(m, WG / THREADS_PER_ROW * ROWS) * ceil_div(rows, TOKENS)
// default: 10
#import lib/lora_up
#import lib/quant/* as w2 binding 2
#import lib/quant/* as a2 binding 3
#import lib/quant/* as v2 binding 4
#import lib/quant/* as g2 binding 5
#import lib/gemv/adapter_rows as w2
#import lib/gemv/adapter_rows as a2
#import lib/gemv/adapter_rows as v2
#import lib/gemv/adapter_rows as g2

const K: u32 = 256u;            // op: k
const WG: u32 = 128u;           // tune: 64 128
const THREADS_PER_ROW: u32 = 8u; // tune: 4 8 16
const ROWS: u32 = 1u;           // tune: 1 2
const UNROLL: u32 = 4u;         // tune: 1 2 4
const TOKENS: u32 = 1u;         // tune: 1 2 4 8
const BLOCK_ROWS: u32 = WG / THREADS_PER_ROW * ROWS;

const MIN_SUBGROUP: u32 = 4u;   // device: min_subgroup
const RANK_DECAY: u32 = 32u;    // op: rank_decay
const RANK_ICLR: u32 = 32u;     // op: rank_iclr
const RANK_VALUE: u32 = 32u;    // op: rank_value
const RANK_GATE: u32 = 32u;     // op: rank_gate
const MAX_RANK: u32 = max(max(RANK_DECAY, RANK_ICLR), max(RANK_VALUE, RANK_GATE));
// Packed loads of the longest row in the format that needs most.
const V2_VALUES_PER_LOAD: u32 = select(32u, v2_values_per_load, v2_is_present);
const LEAST_PER_LOAD: u32 = min(min(w2_values_per_load, a2_values_per_load), min(V2_VALUES_PER_LOAD, g2_values_per_load));
const MAX_LOADS: u32 = MAX_RANK / LEAST_PER_LOAD;
const_assert THREADS_PER_ROW <= MIN_SUBGROUP;                                           // the threads of a row are in one subgroup
const_assert w2_is_float && a2_is_float && v2_is_float && g2_is_float;                  // adapters are read as floats
const_assert K % 8u == 0u && RANK_DECAY % 8u == 0u && RANK_ICLR % 8u == 0u;             // hidden values begin at a load
const_assert RANK_VALUE % 8u == 0u && RANK_GATE % 8u == 0u;                             // hidden values begin at a load

fn x_vec4(i: u32) -> vec4<f32> {
    return x[i];
}

fn dot_rows(adapter: u32, row: u32, token: u32, row_lane: u32) -> array<f32, ROWS * TOKENS> {
    switch adapter {
        case 0u: { return w2_dot_rows(adapter, row, token, row_lane); }
        case 1u: { return a2_dot_rows(adapter, row, token, row_lane); }
        case 2u: { return v2_dot_rows(adapter, row, token, row_lane); }
        default: { return g2_dot_rows(adapter, row, token, row_lane); }
    }
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) tid: u32,
) {
    // All rows of a workgroup are of one adapter; those of the gate, the longest as a rule, come first.
    let index = workgroup_index(workgroup, grid);
    let blocks = (params.m + BLOCK_ROWS - 1u) / BLOCK_ROWS;
    let adapter = 3u - index / blocks % 4u;
    let token = index / (4u * blocks) * TOKENS;
    if token >= params.rows || params.ranks[adapter] == 0u {
        return;
    }
    let row = index % blocks * BLOCK_ROWS + tid / THREADS_PER_ROW * ROWS;
    let row_lane = tid % THREADS_PER_ROW;
    var sums = dot_rows(adapter, row, token, row_lane);
    for (var i = 0u; i < ROWS; i++) {           // unroll
        for (var t = 0u; t < TOKENS; t++) {     // unroll
            let sum = row_sum(sums[i * TOKENS + t]);
            if row_lane == 0u {
                store_sum(adapter, token + t, row + i, sum);
            }
        }
    }
}
