// A stage calls this once, whatever happens, when it has sent for all that no other stage of a step makes. On its own it need
// not wait: its dispatch does. In a merged step the other stages meet here (crates/kernels/src/persistent). The result is 0;
// whatever another stage may have made is read from a place that depends on it, so that nobody reads it too early.
fn others_done(lane: u32) -> u32 {
    return 0u;
}
