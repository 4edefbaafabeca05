//! Classes of precision: everything that a plan rounds.

use crate::{Catalogue, Plan, Precision, StateFormat};
use serde::{Deserialize, Serialize};
use std::fmt;

/// How coarsely a plan computes. The results of a class are right to within what it rounds, so that a plan of a finer
/// class is also right by the measure of a coarser one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct PrecisionClass {
    /// The least precise products.
    pub products: Precision,
    /// How the WKV state is stored between passes.
    pub state: StateFormat,
}

impl PrecisionClass {
    /// Every class, those with an f32 state first, then by the precision of products.
    pub fn all() -> impl Iterator<Item = PrecisionClass> {
        let products = [Precision::F32, Precision::Q15, Precision::F16, Precision::Q8];
        StateFormat::ALL.into_iter().flat_map(move |state| products.map(|products| PrecisionClass { products, state }))
    }

    /// Whether it rounds nothing more coarsely than the other class.
    pub fn is_within(self, other: PrecisionClass) -> bool {
        self.products <= other.products && self.state <= other.state
    }

    /// The classes by whose measure its plans are right: itself, then every coarser one.
    pub fn and_coarser(self) -> impl Iterator<Item = PrecisionClass> {
        let coarser = PrecisionClass::all().filter(move |class| self.is_within(*class) && *class != self);
        std::iter::once(self).chain(coarser)
    }
}

/// `f16`, `f16 with f16 state`.
impl fmt::Display for PrecisionClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&match self.state {
            StateFormat::F32 => self.products.name().to_owned(),
            StateFormat::F16 => format!("{} with f16 state", self.products.name()),
        })
    }
}

/// A name that is no [`PrecisionClass`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no class of precision '{0}': f32, q15, f16 or q8, each alone or followed by 'with f16 state'")]
pub struct UnknownClass(pub String);

impl TryFrom<String> for PrecisionClass {
    type Error = UnknownClass;

    fn try_from(name: String) -> Result<Self, UnknownClass> {
        PrecisionClass::all().find(|class| class.to_string() == name).ok_or(UnknownClass(name))
    }
}

impl From<PrecisionClass> for String {
    fn from(class: PrecisionClass) -> String {
        class.to_string()
    }
}

impl Plan {
    /// Its class: the least precise of what its kernels compute with and of what it allows ops that it does not name,
    /// and how it stores the state. Choices whose variants no longer exist do not count, and no plan with them is used.
    pub fn class(&self, catalogue: &Catalogue) -> PrecisionClass {
        let choices = self.choices.iter().map(|choice| choice.precision(catalogue));
        PrecisionClass { products: choices.fold(self.precision, Precision::max), state: self.state }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_within_itself_and_every_coarser_class() {
        let class = |products, state| PrecisionClass { products, state };
        let (f16, halved) = (class(Precision::F16, StateFormat::F32), class(Precision::F16, StateFormat::F16));
        let coarser: Vec<String> = f16.and_coarser().map(|class| class.to_string()).collect();
        assert_eq!(coarser, ["f16", "q8", "f16 with f16 state", "q8 with f16 state"]);
        assert!(!halved.is_within(f16) && f16.is_within(halved));
        assert_eq!(PrecisionClass::default().and_coarser().count(), PrecisionClass::all().count());
        for class in PrecisionClass::all() {
            assert_eq!(PrecisionClass::try_from(String::from(class)), Ok(class));
        }
        assert!(PrecisionClass::try_from("f8".to_owned()).unwrap_err().to_string().contains("'f8'"));
    }
}
