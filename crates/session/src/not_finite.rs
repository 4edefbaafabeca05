//! Models whose arithmetic breaks. No result of theirs is given out.

use crate::sampling::SampleError;
use crate::{Session, SessionError};
use wgoose_runtime::{DecodeError, NotFinite, RuntimeError};

impl Session {
    /// Refuses values that were made of these tokens if one of them is NaN or infinite.
    ///
    /// # Errors
    /// One is; the error names the op.
    pub(crate) fn check_finite(&mut self, tokens: &[u32], values: &[f32]) -> Result<(), SessionError> {
        match values.iter().find(|x| !x.is_finite()) {
            None => Ok(()),
            Some(value) => {
                let found = self.breaking_op(tokens).map(|found| found.to_string());
                Err(SessionError::NotFinite { value: *value, found })
            }
        }
    }

    /// An error of choosing a token: where logits are NaN or infinite, with the op that makes them so of these tokens.
    pub(crate) fn with_breaking_op(&self, error: SessionError, tokens: &[u32]) -> SessionError {
        let is_broken = matches!(
            error,
            SessionError::Sample(SampleError::NotANumber(_) | SampleError::Infinite(_))
                | SessionError::Runtime(RuntimeError::Decode(DecodeError::NoToken { .. }))
        );
        match is_broken.then(|| self.breaking_op(tokens)).flatten() {
            Some(found) => SessionError::NotFinite { value: found.value, found: Some(found.to_string()) },
            None => error,
        }
    }

    /// The first op that makes such a number of these tokens, in a sequence of its own, as people call it; `None` where
    /// no op does, since the state made the difference, or where there is no memory for it.
    fn breaking_op(&self, tokens: &[u32]) -> Option<NotFinite> {
        self.engine.fork().ok()?.first_not_finite(0, tokens).ok()?
    }
}
