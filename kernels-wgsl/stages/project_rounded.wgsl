// As project_dots.wgsl, but w_r, w_k and w_v meet x rounded to integers. Every workgroup rounds the columns of its TOKENS
// tokens itself, so that there is no other dispatch to wait for. The adapters multiply in f32: their errors would decide
// over decays and gates.
#import project_dots

const ROUNDED: bool = true;
const RUNS: u32 = TOKENS * (K / 16u);

fn project_rounded(unit: u32, lane: u32) {
    let block = block_of(unit);
    if block.matrix == REST {
        clear(block, lane);
        return;
    }
    if block.matrix < 3u {
        // Past the last token the last one is read again; its sums are not stored.
        for (var t = 0u; t < TOKENS; t++) {
            let row = plane_of(block.matrix) * params.rows + min(block.token + t, params.rows - 1u);
            hold_runs(lane, row * (K / 16u), t * (K / 16u), K / 16u);
        }
    }
    workgroupBarrier();
    project(block, lane);
}
