//! Profiles as reports: rows by op or by layer against the ceilings of the device; tables, JSON, traces, bars.

mod bars;
mod report;
mod rows;
mod table;
mod trace;

pub(crate) use bars::svg;
pub(crate) use report::Report;
pub(crate) use table::print;
pub(crate) use trace::timeline;
