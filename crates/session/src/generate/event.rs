//! Events of a generation.

use crate::sampling::TokenLogprobs;
use std::ops::ControlFlow;

/// What a generation tells its caller, who may end it there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GenerationEvent<'a> {
    /// The next pass of a long prompt is about to begin.
    Prefill {
        /// Tokens of the prompt in passes that have begun, and in the prefix cache.
        done: usize,
        /// Tokens of the prompt.
        of: usize,
    },
    /// Log-probabilities of the token whose text comes next, if
    /// [`GenerateOptions::logprobs`](crate::GenerateOptions::logprobs) asks for them; those of a stop token are not
    /// given.
    Logprobs(&'a TokenLogprobs),
    /// A token was chosen: the text that it completes, which may be none. At the end, the rest of the text.
    Text(&'a str),
}

/// Is told what a generation does; a break ends it.
pub type OnGeneration<'a> = &'a mut dyn FnMut(GenerationEvent<'_>) -> ControlFlow<()>;
