#import weight/f16
#import piece/eight

fn weight_take(row: u32, piece: u32) -> weight_piece {
    let q = weight[row * (K / 8u) + piece];
    return mat2x4<f32>(
        vec4(unpack2x16float(q.x), unpack2x16float(q.y)),
        vec4(unpack2x16float(q.z), unpack2x16float(q.w)),
    );
}
