// Columns of x of one token in workgroup memory, which stages of a step share. Needs `const ROOM`: elements of 16 bytes.
var<workgroup> room: array<vec4<u32>, ROOM>;

fn keep_quad(i: u32, quad: vec4<f32>) {
    room[i] = bitcast<vec4<u32>>(quad);
}

fn x_quad(i: u32) -> vec4<f32> {
    return bitcast<vec4<f32>>(room[i]);
}
