#import weight/bf16
#import piece/eight

fn weight_take(row: u32, piece: u32) -> weight_piece {
    let q = weight[row * (K / 8u) + piece];
    return mat2x4<f32>(vec4(weight_pair(q.x), weight_pair(q.y)), vec4(weight_pair(q.z), weight_pair(q.w)));
}
