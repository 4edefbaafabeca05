//! How an evaluation is printed.

mod json;
mod table;

pub(crate) use json::json;
pub(crate) use table::table;
