// A stage calls this once, whatever happens, when it has sent for all that no other stage of a step makes. On its own it need
// not wait: its dispatch does. In a merged step the other stages meet here (crates/kernels/src/persistent).
fn others_done(lane: u32) {}
