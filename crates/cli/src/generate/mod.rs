//! What `wgoose generate` prints: one text as it comes, or many as they end.

mod each;
mod one;

pub(crate) use each::each;
pub(crate) use one::one;
