//! The history of a state: its beginning, and the tokens read since.

use wgoose_runtime::StateData;

/// Where reading began, and how texts are read from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Beginning([u8; 32]);

impl Beginning {
    /// A state of zero.
    pub(crate) const ZERO: Beginning = Beginning([0; 32]);
    /// A state of zero, read in passes that end in hidden states: they may round differently.
    pub(crate) const EMBEDDING: Beginning = Beginning([1; 32]);

    /// A state that came from somewhere else: its content counts.
    pub(crate) fn of(state: &StateData) -> Self {
        if state.is_zero() {
            return Beginning::ZERO;
        }
        let mut hasher = blake3::Hasher::new();
        let mut bytes = Vec::new();
        for (tensor, data) in &state.0 {
            bytes.clear();
            bytes.extend(data.iter().flat_map(|x| x.to_le_bytes()));
            hasher.update(tensor.to_string().as_bytes());
            hasher.update(&bytes);
        }
        Beginning(*hasher.finalize().as_bytes())
    }
}

/// What a sequence has read; `None` as its beginning where that is not known any more.
#[derive(Clone, Debug)]
pub(crate) struct History {
    pub(crate) beginning: Option<Beginning>,
    pub(crate) tokens: Vec<u32>,
}

impl History {
    pub(crate) fn since(beginning: Beginning) -> Self {
        History { beginning: Some(beginning), tokens: Vec::new() }
    }

    /// Something went wrong half way.
    pub(crate) fn lose(&mut self) {
        (self.beginning, self.tokens) = (None, Vec::new());
    }
}
