//! From a source to a grammar, for one vocabulary.

use super::error::{GrammarError, reason};
use super::lazy::Lazy;
use super::matcher::Matcher;
use super::source::{GrammarSource, Rules};
use super::vocabulary::GrammarVocabulary;
use crate::tokenizer::Tokenizer;
use llguidance::ParserFactory;
use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::TokEnv;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

/// Grammars that are kept compiled: clients send the same schema with every request.
const KEPT: usize = 64;

/// Compiles grammars for a vocabulary. It is cheap until the first grammar, which takes about 150 ms more.
pub struct GrammarCompiler {
    tokenizer: Tokenizer,
    rows: usize,
    parsers: OnceLock<(Arc<GrammarVocabulary>, ParserFactory)>,
    /// The newest at the end.
    kept: Mutex<VecDeque<KeptGrammar>>,
}

struct KeptGrammar {
    source: GrammarSource,
    is_answer: bool,
    grammar: Grammar,
}

/// A compiled grammar, shared by its clones.
#[derive(Clone)]
pub struct Grammar(pub(super) Arc<GrammarKind>);

/// A grammar that applies at once, or one that waits.
pub(super) enum GrammarKind {
    /// The parser at its beginning.
    Parser(Box<Mutex<llguidance::Matcher>>, Arc<GrammarVocabulary>),
    Lazy(Lazy),
}

impl GrammarCompiler {
    /// A compiler for a model with `rows` token ids, of which some may have no text: those are never allowed.
    pub fn new(tokenizer: Tokenizer, rows: usize) -> Self {
        GrammarCompiler { tokenizer, rows, parsers: OnceLock::new(), kept: Mutex::new(VecDeque::new()) }
    }

    /// Compiles a grammar.
    ///
    /// # Errors
    /// The source makes no sense, is too large, or has something that the parser does not support.
    pub fn compile(&self, source: &GrammarSource) -> Result<Grammar, GrammarError> {
        self.keep(source, false)
    }

    /// Compiles a grammar for the answer of a chat: up to two spaces or line breaks may come before it.
    ///
    /// # Errors
    /// As of [`GrammarCompiler::compile`].
    pub fn compile_answer(&self, source: &GrammarSource) -> Result<Grammar, GrammarError> {
        self.keep(source, true)
    }

    /// Compiles rules that refer to other grammars.
    pub(crate) fn compile_rules(&self, kind: &'static str, rules: &Rules) -> Result<Grammar, GrammarError> {
        self.build(kind, rules.parsed()?)
    }

    fn keep(&self, source: &GrammarSource, is_answer: bool) -> Result<Grammar, GrammarError> {
        let is_it = |kept: &KeptGrammar| kept.is_answer == is_answer && kept.source == *source;
        let known = self.kept.lock().iter().find(|kept| is_it(kept)).map(|kept| kept.grammar.clone());
        if let Some(grammar) = known {
            return Ok(grammar);
        }
        let grammar = self.build(source.kind(), source.parsed(is_answer)?)?;
        let mut kept = self.kept.lock();
        let surplus = (kept.len() + 1).saturating_sub(KEPT);
        kept.drain(..surplus);
        kept.push_back(KeptGrammar { source: source.clone(), is_answer, grammar: grammar.clone() });
        Ok(grammar)
    }

    fn build(&self, kind: &'static str, parsed: TopLevelGrammar) -> Result<Grammar, GrammarError> {
        let refused = |why: String| GrammarError::Refused { kind, why };
        let (vocabulary, parsers) = self.parsers(kind)?;
        let matcher = llguidance::Matcher::new(parsers.create_parser(parsed));
        match matcher.get_error() {
            Some(why) => Err(refused(reason(why))),
            None => Ok(Grammar(Arc::new(GrammarKind::Parser(Box::new(Mutex::new(matcher)), Arc::clone(vocabulary))))),
        }
    }

    fn parsers(&self, kind: &'static str) -> Result<&(Arc<GrammarVocabulary>, ParserFactory), GrammarError> {
        if let Some(parsers) = self.parsers.get() {
            return Ok(parsers);
        }
        let vocabulary = Arc::new(GrammarVocabulary::new(self.tokenizer.clone(), self.rows));
        let environment: TokEnv = Arc::clone(&vocabulary) as TokEnv;
        let mut parsers =
            ParserFactory::new_simple(&environment).map_err(|why| GrammarError::Refused { kind, why: reason(why) })?;
        parsers.quiet().limits_mut().verbose_errors = false;
        Ok(self.parsers.get_or_init(|| (vocabulary, parsers)))
    }
}

impl Grammar {
    /// A matcher at the beginning of a text.
    pub fn matcher(&self) -> Matcher {
        Matcher::new(self)
    }

    /// Checks that it was compiled for a model with that number of token ids.
    ///
    /// # Errors
    /// It was not.
    pub(crate) fn check(&self, ours: u32) -> Result<(), GrammarError> {
        match (self.vocabulary().rows(), ours as usize) {
            (theirs, ours) if theirs == ours => Ok(()),
            (theirs, ours) => Err(GrammarError::OtherVocabulary { theirs, ours }),
        }
    }

    pub(super) fn vocabulary(&self) -> &Arc<GrammarVocabulary> {
        match &*self.0 {
            GrammarKind::Parser(_, vocabulary) => vocabulary,
            GrammarKind::Lazy(lazy) => lazy.vocabulary(),
        }
    }
}

/// The same compiled grammar.
impl PartialEq for Grammar {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl std::fmt::Debug for Grammar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Grammar")
    }
}

impl std::fmt::Debug for GrammarCompiler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GrammarCompiler").field("rows", &self.rows).finish_non_exhaustive()
    }
}
