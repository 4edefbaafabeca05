// A block is eight pieces: piece i takes load i of low nibbles, whose low and high halves are 64 weights apart.
#import weight/q6_kt
#import piece/pair

fn weight_runs(piece: u32) -> vec2<u32> {
    let low = piece / 4u * 8u + piece % 4u;
    return vec2(low, low + 4u);
}

fn weight_raw(row: u32, piece: u32) -> vec4<u32> {
    let block = row * (K / 256u) + piece / 8u;
    return weight[block / 8u * 105u + block % 8u * 8u + piece % 8u];
}

fn weight_opened(row: u32, piece: u32, words: vec4<u32>) -> weight_piece {
    let block = row * (K / 256u) + piece / 8u;
    let i = piece % 8u;
    let tile = block / 8u * 105u;
    let place = block % 8u;
    let pairs = weight[tile + 64u + place * 4u + i / 4u * 2u + i % 2u] >> vec4(i / 2u % 2u * 2u);
    let low = (words & vec4(0x0f0f0f0fu)) | ((pairs << vec4(4u)) & vec4(0x30303030u));
    let high = ((words >> vec4(4u)) & vec4(0x0f0f0f0fu)) | (pairs & vec4(0x30303030u));
    let runs = weight_runs(i);
    let scales = vec2(weight_scale(block, runs.x), weight_scale(block, runs.y));
    return weight_piece(run_of(low, scales.x, 32.0 * scales.x, 6u), run_of(high, scales.y, 32.0 * scales.y, 6u));
}
