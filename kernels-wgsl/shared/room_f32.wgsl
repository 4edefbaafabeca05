// Columns of x in `room` as they are.
#import room
#import columns_f32

// Keeps four columns, if there are any.
fn keep_columns(i: u32, is_there: bool, quad: vec4<f32>) {
    if is_there {
        keep_quad(i, quad);
    }
}

// After this all columns are there for all.
fn meet_columns(lane: u32) {
    workgroupBarrier();
}
