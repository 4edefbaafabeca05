//! One measured kernel of a site.

use std::collections::BTreeMap;
use wgoose_measure::stats::summary::Summary;

/// A kernel that ran and was right.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Its variant.
    pub variant: String,
    /// Its configuration.
    pub config: BTreeMap<String, String>,
    /// Nanoseconds of a dispatch.
    pub ns: Summary,
    /// Seconds that were spent by then.
    pub at: f64,
}

impl Point {
    /// `variant NAME=value ...`
    pub fn label(&self) -> String {
        label(&self.variant, &self.config)
    }
}

/// `variant NAME=value ...`
pub(super) fn label(variant: &str, config: &BTreeMap<String, String>) -> String {
    config.iter().fold(variant.to_owned(), |text, (name, value)| format!("{text} {name}={value}"))
}
