#import weight/bf16
#import piece/eight

fn weight_opened(row: u32, piece: u32, words: vec4<u32>) -> weight_piece {
    return mat2x4<f32>(
        vec4(weight_pair(words.x), weight_pair(words.y)),
        vec4(weight_pair(words.z), weight_pair(words.w)),
    );
}
