//! A table of names: what one program calls each weight of a model.

use super::Container;
use wgoose_graph::{LayerWeight, Weight};

/// What one program calls each weight.
///
/// A name is made of the *body*, the module that all weights but the head belong to, and the weight's own name. In a
/// layer, the layer's word and its number come between the two.
#[derive(Debug)]
pub(crate) struct Convention {
    /// Whose names they are, for people.
    pub(super) whose: &'static str,
    /// The bodies that files of this convention have.
    pub(super) bodies: &'static [&'static str],
    /// What stands before the number of a layer.
    pub(super) layer: &'static str,
    /// The names of a weight, of which a file has one; of a weight in a layer, what follows the layer's number.
    /// Not of [`LayerWeight::AttMix`].
    pub(super) names: fn(Weight) -> &'static [&'static str],
    /// The names of [`LayerWeight::AttMix`], of which a file has one row: of one tensor, or of six, one for each mix.
    pub(super) mixes: &'static [&'static [&'static str]],
    /// How the halves of adapters are stored, where their sizes do not show it. `None` if the container decides.
    pub(super) adapters: Option<AdapterLayout>,
}

/// How a file stores the halves of its adapters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdapterLayout {
    /// `[rank, C]` and `[C, rank]`, like every matrix.
    OutIn,
    /// `[C, rank]` and `[rank, C]`, as the authors multiply with them.
    InOut,
}

/// The names under which a file has a weight.
pub(crate) enum Names {
    /// One tensor.
    One(String),
    /// Six vectors, one for each row.
    Stacked([String; 6]),
}

impl Convention {
    /// What a weight may be called, each time in one name or six.
    pub(super) fn spellings(&self, weight: Weight) -> Vec<&'static [&'static str]> {
        match weight {
            Weight::Layer(_, LayerWeight::AttMix) => self.mixes.to_vec(),
            _ => (self.names)(weight).chunks(1).collect(),
        }
    }

    /// The names that are written, without a body.
    pub(crate) fn written(&self, weight: Weight) -> Names {
        let name = |name: &&str| match weight {
            Weight::Layer(layer, _) => self.in_layer(layer, name),
            _ => (*name).to_owned(),
        };
        Names::of(self.spellings(weight)[0].iter().map(name).collect())
    }

    /// A name in a layer, without a body.
    pub(super) fn in_layer(&self, layer: u32, name: &str) -> String {
        format!("{}{layer}.{name}", self.layer)
    }

    /// How the halves of adapters are stored that are as wide as the model.
    pub(crate) fn adapters(&self, container: Container) -> AdapterLayout {
        self.adapters.unwrap_or(match container {
            Container::Gguf | Container::Safetensors => AdapterLayout::OutIn,
            Container::Pth => AdapterLayout::InOut,
        })
    }
}

impl Names {
    /// One tensor's name, or six.
    pub(super) fn of(names: Vec<String>) -> Names {
        match <[String; 6]>::try_from(names) {
            Ok(six) => Names::Stacked(six),
            Err(names) => Names::One(names.into_iter().next().unwrap_or_default()),
        }
    }

    /// All of them.
    pub(crate) fn as_slice(&self) -> &[String] {
        match self {
            Names::One(name) => std::slice::from_ref(name),
            Names::Stacked(names) => names,
        }
    }
}
