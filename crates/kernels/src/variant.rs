//! A variant: one way to compute an op. One WGSL file and one literal in the op's file.

use crate::source::{File, Sources};
use crate::specialise;
use crate::{Feature, Limits, Numerics, Site, SpecialiseError, Tunables};
use wgoose_graph::Format;

/// One way to compute an op.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// Name of the op whose folder the file is in.
    pub op: &'static str,
    /// Name among the op's variants.
    pub name: &'static str,
    /// The file.
    pub wgsl: File,
    /// Device features it needs.
    pub needs: &'static [Feature],
    /// Whether it can serve a site with these tunables.
    pub accepts: fn(&Site, &Tunables) -> Result<(), Refusal>,
    /// How many workgroups that takes.
    pub units: fn(&Site, &Tunables) -> u64,
}

/// Why a variant is not used at a site.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The sizes or formats do not suit it.
    #[error("{0}")]
    Shape(&'static str),
    /// The device lacks a feature.
    #[error("the device has no {0}")]
    Feature(Feature),
    /// The device's limits are too low.
    #[error("needs {need} {what}, the device has {limit}")]
    Limit {
        /// Of what.
        what: &'static str,
        /// How many are needed.
        need: u64,
        /// How many there are.
        limit: u64,
    },
    /// It rounds what must not be rounded.
    #[error("computes with {0}, which is not allowed")]
    Numerics(Numerics),
    /// Its text could not be made.
    #[error(transparent)]
    Text(#[from] SpecialiseError),
}

/// Refuses with a reason if `wrong`.
///
/// # Errors
/// The reason, if `wrong`.
pub const fn refuse_if(wrong: bool, why: &'static str) -> Result<(), Refusal> {
    if wrong { Err(Refusal::Shape(why)) } else { Ok(()) }
}

impl Variant {
    /// `op/name`.
    pub fn id(&self) -> String {
        format!("{}/{}", self.op, self.name)
    }

    /// What it computes with. Read from the embedded file, so that no literal can forget it: whoever takes in columns
    /// of integers multiplies rounded activations.
    pub fn numerics(&self) -> Numerics {
        let imports = |wanted: &[&str]| {
            let imported = |line: &str| {
                let name = line.strip_prefix("#import ").and_then(|import| import.split(' ').next());
                name.is_some_and(|name| wanted.contains(&name))
            };
            self.wgsl.text.lines().any(imported)
        };
        match () {
            () if imports(&["columns_int8", "room_int8"]) => Numerics::Int8Activations,
            () if imports(&["columns_int16", "columns_blocks", "room_blocks"]) => Numerics::Int16Activations,
            () => Numerics::F32,
        }
    }

    /// Whether a device with these limits can run it at this site, as far as can be told without making its text.
    ///
    /// # Errors
    /// The typed reason why not.
    pub fn admits(&self, site: &Site, tunables: &Tunables, limits: &Limits) -> Result<(), Refusal> {
        if let Some(missing) = self.needs.iter().find(|f| !limits.features.contains(f)) {
            return Err(Refusal::Feature(*missing));
        }
        // By convention LANES neighbours of a subgroup work together, and NEIGHBOURS where x is rounded.
        let together = ["LANES", "NEIGHBOURS"].into_iter().filter(|name| tunables.0.contains_key(*name));
        let together = together.map(|name| tunables.number(name)).max().unwrap_or(1);
        if together > limits.min_subgroup {
            let (need, limit) = (together.into(), limits.min_subgroup.into());
            return Err(Refusal::Limit { what: "invocations per subgroup", need, limit });
        }
        (self.accepts)(site, tunables)
    }

    /// Hash of the variant's file and of everything it may import at sites whose matrices have these formats.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn source_hash(&self, formats: &[Format], sources: &Sources) -> Result<String, SpecialiseError> {
        let mut hasher = blake3::Hasher::new();
        for file in specialise::closure(self.wgsl, formats, sources)? {
            hasher.update(specialise::read(file, sources)?.as_bytes());
        }
        Ok(hasher.finalize().to_hex()[..32].to_owned())
    }

    /// The default value of every tunable.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn defaults(&self, sources: &Sources) -> Result<Tunables, SpecialiseError> {
        let all = specialise::tunables(self.wgsl, sources)?;
        Ok(Tunables(all.into_iter().map(|(name, default, _)| (name, default)).collect()))
    }

    /// Every combination of the tunables' choices, the default first.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn points(&self, sources: &Sources) -> Result<Vec<Tunables>, SpecialiseError> {
        let default = self.defaults(sources)?;
        let mut points = vec![Tunables::default()];
        for (name, _, choices) in specialise::tunables(self.wgsl, sources)? {
            let extend = |point: &Tunables, choice: &String| {
                let mut next = point.clone();
                next.0.insert(name.clone(), choice.clone());
                next
            };
            points =
                points.iter().flat_map(|p| choices.iter().map(move |c| extend(p, c)).collect::<Vec<_>>()).collect();
        }
        points.sort_by_key(|p| *p != default);
        Ok(points)
    }
}
