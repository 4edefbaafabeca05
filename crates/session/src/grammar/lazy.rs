//! Grammars that wait for a text.

use super::compiler::{Grammar, GrammarKind};
use super::vocabulary::{GrammarVocabulary, find};
use std::sync::Arc;

/// A text after which a grammar applies.
#[derive(Clone, Debug)]
pub struct GrammarTrigger {
    /// The text, not empty.
    pub text: String,
    /// The grammar of what follows.
    pub grammar: Grammar,
}

/// When a grammar that waits has to begin, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// The text may not end before the grammar has applied; it ends with the grammar.
    Once,
    /// The text may end before; it ends with the grammar.
    AtMostOnce,
    /// The text may end before, and after the grammar all tokens are allowed again, until the next trigger.
    Repeatedly,
}

impl Grammar {
    /// A grammar that applies after the first of these texts. Until then every token is allowed, but for one that
    /// completes a trigger and continues with something that its grammar excludes. `None` without triggers.
    pub fn after(triggers: Vec<GrammarTrigger>, waiting: Waiting) -> Option<Grammar> {
        let vocabulary = Arc::clone(triggers.first()?.grammar.vocabulary());
        let triggers = triggers.into_iter().filter(|trigger| !trigger.text.is_empty());
        let triggers: Vec<KnownTrigger> = triggers.map(|trigger| KnownTrigger::new(&vocabulary, trigger)).collect();
        let longest = triggers.iter().map(|trigger| trigger.text.len()).max()?;
        Some(Grammar(Arc::new(GrammarKind::Lazy(Lazy { triggers, longest, waiting, vocabulary }))))
    }
}

/// Triggers, and the vocabulary of their grammars.
pub(super) struct Lazy {
    triggers: Vec<KnownTrigger>,
    /// Bytes of the longest trigger.
    longest: usize,
    pub(super) waiting: Waiting,
    vocabulary: Arc<GrammarVocabulary>,
}

struct KnownTrigger {
    text: Vec<u8>,
    grammar: Grammar,
    /// Tokens that contain the whole text, and something after it.
    containing: Vec<u32>,
}

/// A trigger that is complete.
pub(super) struct Triggered<'a> {
    pub(super) grammar: &'a Grammar,
    /// Length of the text up to its end.
    pub(super) end: usize,
}

/// A token that would complete a trigger, and what it has after it.
pub(super) struct Completing<'a> {
    pub(super) token: u32,
    pub(super) grammar: &'a Grammar,
    pub(super) rest: &'a [u8],
}

impl KnownTrigger {
    fn new(vocabulary: &GrammarVocabulary, trigger: GrammarTrigger) -> Self {
        let text = trigger.text.into_bytes();
        let goes_on = |token: &u32| find(vocabulary.bytes(*token), &text) < Some(vocabulary.bytes(*token).len());
        let containing = vocabulary.containing(&text).into_iter().filter(goes_on).collect();
        KnownTrigger { text, grammar: trigger.grammar, containing }
    }
}

impl Lazy {
    pub(super) fn vocabulary(&self) -> &Arc<GrammarVocabulary> {
        &self.vocabulary
    }

    /// The first trigger to be complete; of several complete at once, the longest.
    pub(super) fn triggered(&self, text: &[u8]) -> Option<Triggered<'_>> {
        let found = self.triggers.iter().filter_map(|trigger| Some((find(text, &trigger.text)?, trigger)));
        let first = found.min_by_key(|(end, trigger)| (*end, std::cmp::Reverse(trigger.text.len())));
        first.map(|(end, trigger)| Triggered { grammar: &trigger.grammar, end })
    }

    /// Forgets the bytes that can be no part of a trigger.
    pub(super) fn forget(&self, text: &mut Vec<u8>) {
        text.drain(..text.len().saturating_sub(self.longest - 1));
    }

    /// The tokens that would complete a trigger after `text` and have something after it.
    pub(super) fn completing<'a>(&'a self, text: &[u8]) -> Vec<Completing<'a>> {
        let mut all = Vec::new();
        for trigger in &self.triggers {
            let KnownTrigger { text: whole, grammar, containing } = trigger;
            let bytes = |token: u32| self.vocabulary.bytes(token);
            let begun = (1..whole.len()).filter(|len| text.ends_with(&whole[..*len]));
            for missing in begun.map(|len| &whole[len..]) {
                let tokens = self.vocabulary.beginning_with(missing).iter().copied();
                all.extend(
                    tokens
                        .map(|token| Completing { token, grammar, rest: &bytes(token)[missing.len()..] })
                        .filter(|completing| !completing.rest.is_empty()),
                );
            }
            all.extend(containing.iter().filter_map(|token| {
                let rest = &bytes(*token)[find(bytes(*token), whole)?..];
                Some(Completing { token: *token, grammar, rest })
            }));
        }
        all
    }
}
