//! Models whose arithmetic breaks. No result of theirs is given out.

use crate::{Session, SessionError};

impl Session {
    /// Refuses values that were made of these tokens if one of them is NaN or infinite.
    ///
    /// # Errors
    /// One is; the error names the op.
    pub(crate) fn check_finite(&mut self, tokens: &[u32], values: &[f32]) -> Result<(), SessionError> {
        match values.iter().find(|x| !x.is_finite()) {
            None => Ok(()),
            Some(value) => Err(SessionError::NotFinite { value: *value, found: self.breaking_op(tokens) }),
        }
    }

    /// The first op that makes such a number of these tokens, in a sequence of its own, as people call it; `None` where no op does,
    /// since the state made the difference, or where there is no memory for it.
    fn breaking_op(&self, tokens: &[u32]) -> Option<String> {
        let found = self.engine.fork().ok()?.first_not_finite(0, tokens).ok()?;
        found.map(|found| found.to_string())
    }
}
