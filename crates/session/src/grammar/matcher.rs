//! A sequence under a grammar.

use super::compiler::{Grammar, GrammarKind};
use super::error::{GrammarError, reason};
use super::lazy::{Lazy, Waiting};
use super::vocabulary::GrammarVocabulary;
use crate::tokenizer::END_OF_TEXT;
use std::sync::Arc;

/// The state of one text under a grammar.
pub struct Matcher {
    vocabulary: Arc<GrammarVocabulary>,
    phase: Phase,
    /// The grammar to wait with again, once another has ended.
    repeated: Option<Grammar>,
    /// Empty: every token may come.
    mask: Vec<u32>,
}

enum Phase {
    /// The parser; boxed, for it is large.
    Inside(Box<llguidance::Matcher>),
    /// The grammar that waits, and the end of the text.
    Waiting(Grammar, Vec<u8>),
    /// Only the end of text may follow.
    Ended,
    /// The text is none of the grammar.
    Failed(GrammarError),
}

impl Matcher {
    pub(super) fn new(grammar: &Grammar) -> Self {
        let vocabulary = Arc::clone(grammar.vocabulary());
        let mut matcher = Matcher { vocabulary, phase: Phase::Ended, repeated: None, mask: Vec::new() };
        matcher.enter(grammar);
        matcher
    }

    fn enter(&mut self, grammar: &Grammar) {
        self.phase = match &*grammar.0 {
            GrammarKind::Parser(parser, _) => Phase::Inside(Box::new(parser.lock().deep_clone())),
            GrammarKind::Lazy(lazy) => {
                if lazy.waiting == Waiting::Repeatedly {
                    self.repeated = Some(grammar.clone());
                }
                Phase::Waiting(grammar.clone(), Vec::new())
            }
        };
    }

    /// Computes which tokens may come next, for [`Matcher::mask`].
    ///
    /// # Errors
    /// The parser reaches a limit, no token may come, or a token was pushed that the grammar excludes.
    pub fn compute_mask(&mut self) -> Result<(), GrammarError> {
        let words = self.vocabulary.words();
        self.mask.clear();
        match &mut self.phase {
            Phase::Ended => {
                self.mask.resize(words, 0);
                self.mask[0] = 1 << END_OF_TEXT;
            }
            Phase::Inside(parser) => {
                let mask = parser.compute_mask_or_eos().map_err(|why| GrammarError::Stuck(reason(why)))?;
                self.mask.extend_from_slice(&mask.as_slice()[..words]);
            }
            Phase::Waiting(grammar, text) => {
                let GrammarKind::Lazy(lazy) = &*grammar.0 else { return Ok(()) };
                let banned = banned(lazy, &self.vocabulary, text)?;
                if !banned.is_empty() {
                    self.mask.extend_from_slice(self.vocabulary.all());
                    banned.into_iter().for_each(|token| self.mask[token as usize / 32] &= !(1 << (token % 32)));
                }
            }
            Phase::Failed(why) => return Err(why.clone()),
        }
        Ok(())
    }

    /// The tokens that may come next, as computed last: bit t of word t / 32 is set if token t may, with a word for each
    /// 32 token ids of the model. The end of text (token 0) may where the grammar may end. `None`: every token may come.
    pub fn mask(&self) -> Option<&[u32]> {
        Some(&self.mask[..]).filter(|mask| !mask.is_empty())
    }

    /// Appends a token.
    ///
    /// # Errors
    /// The grammar excludes its text.
    pub fn push(&mut self, token: u32) -> Result<(), GrammarError> {
        let is_taken = match &mut self.phase {
            Phase::Ended => token == END_OF_TEXT,
            Phase::Failed(why) => return Err(why.clone()),
            Phase::Inside(parser) => {
                let is_taken = parser.consume_token(token).is_ok();
                self.leave_ended();
                is_taken
            }
            Phase::Waiting(..) => {
                let bytes = self.vocabulary.bytes(token).to_vec();
                self.wait(&bytes)
            }
        };
        if !is_taken {
            let why = GrammarError::Token(token);
            self.phase = Phase::Failed(why.clone());
            return Err(why);
        }
        Ok(())
    }

    /// Appends bytes while a grammar waits. False: a trigger is complete, and its grammar excludes the bytes after it.
    fn wait(&mut self, bytes: &[u8]) -> bool {
        let Phase::Waiting(grammar, text) = &mut self.phase else { return true };
        let grammar = grammar.clone();
        let GrammarKind::Lazy(lazy) = &*grammar.0 else { return true };
        text.extend_from_slice(bytes);
        let Some(triggered) = lazy.triggered(text) else {
            lazy.forget(text);
            return true;
        };
        let rest = text.split_off(triggered.end);
        self.enter(triggered.grammar);
        match &mut self.phase {
            _ if rest.is_empty() => true,
            Phase::Inside(parser) => {
                let tokens = self.vocabulary.encode(&rest);
                let is_taken = parser.try_consume_tokens(&tokens).is_ok_and(|taken| taken == tokens.len());
                self.leave_ended();
                is_taken
            }
            _ => self.wait(&rest),
        }
    }

    /// Leaves a grammar that nothing can continue.
    fn leave_ended(&mut self) {
        if matches!(&self.phase, Phase::Inside(parser) if parser.is_stopped()) {
            match self.repeated.clone() {
                Some(grammar) => self.enter(&grammar),
                None => self.phase = Phase::Ended,
            }
        }
    }

    /// Whether the text may end here.
    pub fn may_end(&mut self) -> bool {
        match &mut self.phase {
            Phase::Ended => true,
            Phase::Failed(_) => false,
            Phase::Inside(parser) => parser.is_stopped() || parser.is_accepting().unwrap_or(false),
            Phase::Waiting(grammar, _) => match &*grammar.0 {
                GrammarKind::Lazy(lazy) => lazy.waiting != Waiting::Once,
                GrammarKind::Parser(..) => false,
            },
        }
    }

    /// Whether nothing but the end of text may follow.
    pub fn must_end(&self) -> bool {
        matches!(self.phase, Phase::Ended)
    }
}

/// Rules out the tokens whose bit is not set. Logits beyond the mask are ruled out too.
pub(crate) fn rule_out(logits: &mut [f32], mask: &[u32]) {
    for (token, logit) in logits.iter_mut().enumerate() {
        if mask.get(token / 32).is_none_or(|word| word >> (token % 32) & 1 == 0) {
            *logit = f32::NEG_INFINITY;
        }
    }
}

/// The tokens that may not come after `text` while a grammar waits.
fn banned(lazy: &Lazy, vocabulary: &GrammarVocabulary, text: &[u8]) -> Result<Vec<u32>, GrammarError> {
    let mut banned: Vec<u32> = Vec::new();
    if lazy.waiting == Waiting::Once {
        banned.push(END_OF_TEXT);
    }
    for completing in lazy.completing(text) {
        let GrammarKind::Parser(parser, _) = &*completing.grammar.0 else { continue };
        let tokens = vocabulary.encode(completing.rest);
        let valid = parser.lock().deep_clone().validate_tokens(&tokens);
        if valid.map_err(|why| GrammarError::Stuck(reason(why)))? < tokens.len() {
            banned.push(completing.token);
        }
    }
    Ok(banned)
}

impl std::fmt::Debug for Matcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Matcher").field("must_end", &self.must_end()).finish_non_exhaustive()
    }
}
