//! The names of weights in files.
//!
//! A [`Convention`] is a table of names; each has a file here, which says where the names come from. A [`Naming`] is
//! the convention that one file follows, decided by the set of all its names.

mod checkpoint;
mod container;
mod convention;
mod decoder;
mod fla;
mod gguf;
mod naming;
mod port;
mod wrapper;

pub use container::Container;
pub(crate) use convention::{AdapterLayout, Convention, Names};
pub(crate) use naming::Naming;
