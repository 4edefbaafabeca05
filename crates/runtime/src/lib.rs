//! Runs a plan on a device: tokens and state in, logits and state out.
