//! The spread of samples.

use serde::Serialize;
use wgoose_measure::stats::Summary;

/// The spread of samples, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The fastest.
    pub min: f64,
    /// The slowest.
    pub max: f64,
    /// Interquartile range.
    pub iqr: f64,
}

impl Spread {
    /// The spread of samples; `None` without any.
    pub(crate) fn of(samples: &[f64]) -> Option<Spread> {
        let s = Summary::of(samples)?;
        Some(Spread { median: s.median, min: s.min, max: samples.iter().copied().fold(s.min, f64::max), iqr: s.iqr })
    }
}
