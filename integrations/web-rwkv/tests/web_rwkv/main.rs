//! web-rwkv over wgoose-loader: the same tensors, the same logits, and the programs of the reports.

mod engine;
mod examples;
mod logits;
mod models;
mod refusals;
mod spirv;
mod tensors;

/// Writers of model files that share nothing with wgoose-loader's readers.
#[allow(dead_code, reason = "the loader's own tests use all of it")]
#[path = "../../../../crates/loader/tests/loader/model_files/support/mod.rs"]
mod support;

#[path = "../../reports/memory_model_marks.rs"]
mod memory_model_marks;
#[path = "../../reports/multiplied_by_one.rs"]
mod multiplied_by_one;
#[path = "../../reports/packed_lengths.rs"]
mod packed_lengths;
#[path = "../../reports/rest_of_a_prompt.rs"]
mod rest_of_a_prompt;
#[path = "../../reports/shuffles_behind_private.rs"]
mod shuffles_behind_private;
#[path = "../../reports/token_out_of_range.rs"]
mod token_out_of_range;
