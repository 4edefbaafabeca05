//! A start, as a user meets it: what a process does until it has the first token.

use crate::BenchError;
use std::ops::ControlFlow;
use std::path::Path;
use wgoose_measure::driver::prompts;
use wgoose_session::{GenerateOptions, SessionBuilder};

/// Opens a model, reads a prompt of so many tokens, always the same, and chooses the token that follows it; says so at once, and ends as
/// other processes do: what is still compiling is kept on disk. Of a model without a vocabulary, whose tokens are no text, the logits
/// are taken.
///
/// # Errors
/// The model, the device or the plan.
pub fn first_token(
    builder: SessionBuilder,
    model: &Path,
    tokens: u32,
    is_chosen: &mut dyn FnMut(),
) -> Result<(), BenchError> {
    let mut session = builder.open(model)?;
    let prompt = prompts(1, tokens as usize, session.model().shape().vocab).concat();
    if session.tokenizer().is_err() {
        session.prefill(&prompt)?;
        is_chosen();
        return Ok(());
    }
    let options = GenerateOptions { max_tokens: 1, ..GenerateOptions::default() };
    session.generate_after(&prompt, &options, &mut |_| ControlFlow::Continue(()))?;
    is_chosen();
    Ok(())
}
