// needs: subgroups
// precision: q15
// Products of rows of K-quants with one token, as integers, half a super-block (128 weights) at a time. x is rounded to 15
// bits: quant = 128 * high + low, two int8 limbs. The 128 values that half a super-block multiplies share a scale, their largest
// |x| / 16256, so that a product with half a super-block is a sum of integers until its end.
//
// LANES_PER_GROUP lanes of a subgroup quantise 128 values; THREADS_PER_ROW lanes share ROWS rows, each takes half a
// super-block of them at a time, UNROLL of those in flight. Imported for a matrix, or for one of several of one format:
// `#import lib/gemv/half_blocks as w` makes `w_prefetch` and `w_gemv_rows`. `scratch` has INTEGERS elements from
// X_OFFSET on; `load_half_blocks` is `w_load_half_blocks` of the matrix that is meant.
// requires: const K, LANES_PER_GROUP, ROWS, THREADS_PER_ROW, UNROLL, WG, X_OFFSET, var scratch, y, fn activate
// requires: fn load_half_blocks, load_residual, row_sum, x_vec4
#import lib/x/integers

const_assert weight_k_sub_blocks == 4u || weight_k_sub_blocks == 8u;    // scales come in words of four

const SUB_BLOCKS: u32 = weight_k_sub_blocks;
const LOADS: u32 = weight_k_loads;
const HALF_BLOCKS: u32 = K / 128u;
// In whole iterations of the threads of a row.
const WHOLE_HALF_BLOCKS: u32 = (HALF_BLOCKS + THREADS_PER_ROW - 1u) / THREADS_PER_ROW * THREADS_PER_ROW;
const K_ITERATIONS: u32 = (HALF_BLOCKS + THREADS_PER_ROW * UNROLL - 1u) / (THREADS_PER_ROW * UNROLL);
// Groups of 16 quants in a sub-block.
const GROUPS_PER_SUB_BLOCK: u32 = 8u / SUB_BLOCKS;
// vec4s that a lane rounds at a time, and how many lanes share a sub-block: fewer than two have it alone.
const VEC4S_PER_LANE: u32 = 32u / LANES_PER_GROUP;
const LANES_PER_SUB_BLOCK: u32 = 32u / SUB_BLOCKS / VEC4S_PER_LANE;
const X_GROUPS: u32 = K / 4u / VEC4S_PER_LANE;
// For every half super-block: sixteen pairs of words, high and low limbs of one vec4 and of the next, then the sums of four
// sub-blocks at a time as three words with an int8 digit of each, to base 256, and the scale. Halves are adjacent, as the
// lanes that read them.
const INTEGERS: u32 = (16u + SUB_BLOCKS / 4u) * HALF_BLOCKS;

// Half a super-block as it is loaded, and what is in flight: UNROLL of them of ROWS rows.
alias HalfBlockWords = array<vec4<u32>, LOADS>;
alias InFlight = array<array<HalfBlockWords, ROWS>, UNROLL>;

// What half a super-block says of its quants: weight = d * scale * quant - offset * min, scales and mins int8, four in a word.
struct HalfBlock {
    scales: vec2<u32>,
    mins: vec2<u32>,
    d: f32,
    offset: f32,
}

// Rounds the VEC4S_PER_LANE vec4s of number `i` among groups of as many, if they are there. All threads call this together: a
// shuffle under non-uniform control flow compiles to a slow call.
fn stage_vec4s(i: u32, is_there: bool, values: array<vec4<f32>, VEC4S_PER_LANE>) {
    var largest = 0u;
    for (var v = 0u; v < VEC4S_PER_LANE; v++) {     // unroll
        largest = max(largest, magnitude(values[v]));
    }
    for (var mask = 1u; mask < LANES_PER_GROUP; mask *= 2u) {
        largest = max(largest, subgroupShuffleXor(largest, mask));
    }
    let scale = bitcast<f32>(largest) / 16256.0;
    let steps = reciprocal(scale);
    let half_block = i / LANES_PER_GROUP;
    var words: array<vec2<u32>, VEC4S_PER_LANE>;
    var sum = 0;
    for (var v = 0u; v < VEC4S_PER_LANE; v++) {     // unroll
        let quants = round_to_even(values[v] * steps);
        let highs = (quants + vec4(64)) >> vec4(7u);
        words[v] = vec2(pack4xI8(highs), pack4xI8(quants - highs * 128));
        sum += 128 * dot4I8Packed(0x01010101u, words[v].x) + dot4I8Packed(0x01010101u, words[v].y);
    }
    // One thread stores a pair: a device may store all of a vector where one component is meant.
    let at = X_OFFSET + i % LANES_PER_GROUP * VEC4S_PER_LANE / 2u * HALF_BLOCKS + half_block;
    if VEC4S_PER_LANE == 1u {
        let other = subgroupShuffleXor(words[0], 1u);
        if is_there && i % 2u == 0u {
            scratch[at] = vec4(words[0], other);
        }
    } else if is_there {
        for (var pair = 0u; pair < VEC4S_PER_LANE / 2u; pair++) {   // unroll
            scratch[at + pair * HALF_BLOCKS] = vec4(words[2u * pair], words[2u * pair + 1u]);
        }
    }

    for (var mask = 1u; mask < LANES_PER_SUB_BLOCK; mask *= 2u) {
        sum += subgroupShuffleXor(sum, mask);
    }
    let second = (sum + 128) >> 8u;
    let digits = vec3(sum, second, (second + 128) >> 8u);
    let sub_block = i % LANES_PER_GROUP / LANES_PER_SUB_BLOCK;
    var of_four = (bitcast<vec3<u32>>(digits) & vec3(255u)) << vec3(sub_block % 4u * 8u);
    of_four |= subgroupShuffleXor(of_four, LANES_PER_SUB_BLOCK);
    of_four |= subgroupShuffleXor(of_four, 2u * LANES_PER_SUB_BLOCK);
    if is_there && i % (4u * LANES_PER_SUB_BLOCK) == 0u {
        scratch[X_OFFSET + (16u + sub_block / 4u) * HALF_BLOCKS + half_block] = vec4(of_four, bitcast<u32>(scale));
    }
}

fn load_vec4s(first: u32) -> array<vec4<f32>, VEC4S_PER_LANE> {
    var values: array<vec4<f32>, VEC4S_PER_LANE>;
    for (var v = 0u; v < VEC4S_PER_LANE; v++) {     // unroll
        values[v] = x_vec4(first + v);
    }
    return values;
}

// Stages x from vec4 `begin` on.
fn stage_x(tid: u32, begin: u32) {
    for (var block = 0u; block < X_GROUPS; block += WG) {
        let i = block + tid;
        stage_vec4s(i, i < X_GROUPS, load_vec4s(begin + min(i, X_GROUPS - 1u) * VEC4S_PER_LANE));
    }
}

// Stages vec4 `i` of x out of registers, if it is there: rounded where a lane has all that it rounds, else in f32, before the
// integers.
fn stage_vec4(i: u32, is_there: bool, value: vec4<f32>) {
    if VEC4S_PER_LANE == 1u {
        var values: array<vec4<f32>, VEC4S_PER_LANE>;
        values[0] = value;
        stage_vec4s(i, is_there, values);
    } else if is_there {
        scratch[i] = bitcast<vec4<u32>>(value);
    }
}

// After this all threads may read what `stage_vec4` has staged.
fn finish_staging(tid: u32) {
    workgroupBarrier();
    if VEC4S_PER_LANE > 1u {
        stage_x(tid, 0u);
        workgroupBarrier();
    }
}

fn scale_of(block: HalfBlock, sub_block: u32) -> i32 {
    return extractBits(bitcast<i32>(block.scales[sub_block / 4u]), sub_block % 4u * 8u, 8u);
}

// The sum of four mins times the sums of their x, below 2^29.
fn dot_sums(mins: u32, digits: vec4<u32>) -> i32 {
    return dot4I8Packed(mins, digits.x) + 256 * dot4I8Packed(mins, digits.y) + 65536 * dot4I8Packed(mins, digits.z);
}

// What a thread reads first of rows `begin` to `end`: it depends on nothing.
fn weight_prefetch(begin: u32, end: u32, tid: u32) -> InFlight {
    var words: InFlight;
    for (var u = 0u; u < UNROLL; u++) {         // unroll
        let row = begin + tid / THREADS_PER_ROW * ROWS;
        words[u] = load_half_blocks(row, end, tid % THREADS_PER_ROW + u * THREADS_PER_ROW);
    }
    return words;
}

// ROWS products of half a super-block.
fn weight_dot_half(words: array<HalfBlockWords, ROWS>, half_block: u32) -> array<f32, ROWS> {
    var half_blocks: array<HalfBlock, ROWS>;
    for (var i = 0u; i < ROWS; i++) {           // unroll
        half_blocks[i] = weight_half_block(words[i], half_block);
    }
    var highs: array<i32, ROWS>;
    var lows: array<i32, ROWS>;
    for (var sub_block = 0u; sub_block < SUB_BLOCKS; sub_block++) {     // unroll
        var high: array<i32, ROWS>;
        var low: array<i32, ROWS>;
        for (var g = 0u; g < GROUPS_PER_SUB_BLOCK; g++) {   // unroll
            let group = sub_block * GROUPS_PER_SUB_BLOCK + g;
            let first = scratch[X_OFFSET + 2u * group * HALF_BLOCKS + half_block];
            let second = scratch[X_OFFSET + (2u * group + 1u) * HALF_BLOCKS + half_block];
            let x_high = vec4(first.xz, second.xz);
            let x_low = vec4(first.yw, second.yw);
            for (var i = 0u; i < ROWS; i++) {   // unroll
                let quants = weight_quants16(words[i], half_block, group);
                high[i] += dot_words(quants, x_high);
                low[i] += dot_words(quants, x_low);
            }
        }
        for (var i = 0u; i < ROWS; i++) {       // unroll
            let scale = scale_of(half_blocks[i], sub_block);
            highs[i] += scale * high[i];
            lows[i] += scale * low[i];
        }
    }
    var mins: array<i32, ROWS>;
    var x_scale: f32;
    for (var four = 0u; four < SUB_BLOCKS / 4u; four++) {   // unroll
        let digits = scratch[X_OFFSET + (16u + four) * HALF_BLOCKS + half_block];
        x_scale = bitcast<f32>(digits.w);
        for (var i = 0u; i < ROWS; i++) {       // unroll
            mins[i] += dot_sums(half_blocks[i].mins[four], digits);
        }
    }
    var products: array<f32, ROWS>;
    for (var i = 0u; i < ROWS; i++) {           // unroll
        let quants = 128.0 * f32(highs[i]) + f32(lows[i]);
        products[i] = x_scale * (half_blocks[i].d * quants - half_blocks[i].offset * f32(mins[i]));
    }
    return products;
}

// Stores the products of rows `begin` to `end` at y[at + row]. Uniform trip counts: a shuffle under non-uniform control flow
// compiles to a slow call.
fn weight_gemv_rows(begin: u32, end: u32, at: u32, kind: u32, tid: u32, in_flight: InFlight) {
    let row_lane = tid % THREADS_PER_ROW;
    var words = in_flight;
    for (var block = begin; block < end; block += WG / THREADS_PER_ROW * ROWS) {
        let row = block + tid / THREADS_PER_ROW * ROWS;
        var residuals: array<f32, ROWS>;
        for (var i = 0u; i < ROWS; i++) {       // unroll
            residuals[i] = load_residual(at + min(row + i, end - 1u));
        }
        var sums: array<f32, ROWS>;
        for (var iteration = 0u; iteration < K_ITERATIONS; iteration++) {
            // The same rows' next iteration, or the first one of the next rows.
            let goes_on = iteration + 1u < K_ITERATIONS;
            let next_row = select(row + WG / THREADS_PER_ROW * ROWS, row, goes_on);
            let next = select(row_lane, row_lane + (iteration + 1u) * UNROLL * THREADS_PER_ROW, goes_on);
            for (var u = 0u; u < UNROLL; u++) { // unroll
                // In flight while the one at hand is multiplied.
                let coming = load_half_blocks(next_row, end, next + u * THREADS_PER_ROW);
                let half_block = (iteration * UNROLL + u) * THREADS_PER_ROW + row_lane;
                if half_block < HALF_BLOCKS && row < end {
                    let products = weight_dot_half(words[u], half_block);
                    for (var i = 0u; i < ROWS; i++) {   // unroll
                        sums[i] += products[i];
                    }
                }
                words[u] = coming;
            }
        }
        for (var i = 0u; i < ROWS; i++) {       // unroll
            let sum = row_sum(sums[i]);
            if row_lane == 0u && row + i < end {
                y[at + row + i] = residuals[i] + activate(kind, sum);
            }
        }
    }
}
