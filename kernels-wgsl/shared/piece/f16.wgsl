#import weight/f16
#import piece/eight

fn weight_opened(row: u32, piece: u32, words: vec4<u32>) -> weight_piece {
    return mat2x4<f32>(
        vec4(unpack2x16float(words.x), unpack2x16float(words.y)),
        vec4(unpack2x16float(words.z), unpack2x16float(words.w)),
    );
}
