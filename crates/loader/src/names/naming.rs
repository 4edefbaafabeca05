//! The naming of one file, decided by the set of all its names.

use super::convention::{AdapterLayout, Convention, Names};
use super::wrapper::{unwrapped, wrappers};
use super::{Container, checkpoint, decoder, fla, port};
use crate::error::LoadError;
use crate::other_rwkv::OtherRwkv;
use std::collections::{BTreeSet, HashMap, HashSet};
use wgoose_graph::{ModelShape, Weight};

/// The conventions of safetensors and .pth files. Of two that explain as many names, the first is meant.
const CONVENTIONS: [&Convention; 4] = [&checkpoint::NAMES, &port::NAMES, &fla::NAMES, &decoder::NAMES];

/// The convention that a file follows, and what comes before and between its names.
#[derive(Clone, Debug)]
pub(crate) struct Naming {
    convention: &'static Convention,
    container: Container,
    /// What all names begin with.
    wrapper: String,
    body: &'static str,
    /// The names in the file by what wrappers leave of them.
    in_file: HashMap<String, String>,
    /// How many names of the file the convention explains.
    explained: usize,
}

impl Naming {
    /// The naming that explains the most names of a file.
    pub(crate) fn of<'a>(container: Container, names: impl Iterator<Item = &'a str>) -> Self {
        let in_file = unwrapped(names);
        let conventions = match container {
            Container::Gguf => &[container.written_names()][..],
            Container::Safetensors | Container::Pth => &CONVENTIONS[..],
        };
        let wrappers = match container {
            Container::Gguf => BTreeSet::from([String::new()]),
            Container::Safetensors | Container::Pth => wrappers(in_file.keys()),
        };
        let convention = container.written_names();
        let mut naming =
            Naming { convention, container, wrapper: String::new(), body: convention.bodies[0], in_file, explained: 0 };
        for wrapper in wrappers {
            for convention in conventions {
                let terms = Terms::of(convention);
                for body in convention.bodies {
                    let local = naming.in_file.keys().filter_map(|name| name.strip_prefix(wrapper.as_str()));
                    let explained = local.filter(|name| terms.explain(body, name)).count();
                    if explained > naming.explained {
                        naming = Naming { convention, wrapper: wrapper.clone(), body, explained, ..naming };
                    }
                }
            }
        }
        let local = |(name, file): (String, String)| Some((name.strip_prefix(&naming.wrapper)?.to_owned(), file));
        naming.in_file = naming.in_file.into_iter().filter_map(local).collect();
        naming
    }

    /// Under which names the file has a weight; where it has none, under which it would be looked for.
    pub(crate) fn names(&self, weight: Weight) -> Names {
        let spellings = self.convention.spellings(weight);
        let mut spellings = spellings.iter().map(|names| names.iter().map(|name| self.local(weight, name)).collect());
        let has_any = |names: &Vec<String>| names.iter().any(|name| self.in_file.contains_key(name));
        let names = spellings.clone().find(has_any).or_else(|| spellings.next()).unwrap_or_default();
        Names::of(names.iter().map(|name| self.in_file(name)).collect())
    }

    /// A name of a weight, without the wrapper.
    fn local(&self, weight: Weight, name: &str) -> String {
        match weight {
            Weight::Head => name.to_owned(),
            Weight::Layer(layer, _) => self.body.to_owned() + &self.convention.in_layer(layer, name),
            _ => self.body.to_owned() + name,
        }
    }

    /// The whole of a name.
    fn in_file(&self, local: &str) -> String {
        self.in_file.get(local).cloned().unwrap_or_else(|| format!("{}{local}", self.wrapper))
    }

    /// One more than the last layer that the convention has a name for in the file.
    pub(crate) fn layers(&self) -> u64 {
        let terms = Terms::of(self.convention);
        let explained = self.in_file.keys().filter(|name| terms.explain(self.body, name));
        let layer = |name: &String| terms.in_layer(name.strip_prefix(self.body)?).map(|(layer, _)| layer);
        explained.filter_map(layer).max().map_or(0, |last| u64::from(last) + 1)
    }

    /// How the file stores the halves of adapters that are as wide as the model.
    pub(crate) fn adapters(&self) -> AdapterLayout {
        self.convention.adapters(self.container)
    }

    /// Why a file without this tensor is refused.
    pub(crate) fn missing(&self, tensor: &str) -> LoadError {
        if let Some((version, tensor)) = OtherRwkv::of(&self.in_file.values().map(String::as_str)) {
            return LoadError::OtherRwkv { version, tensor: tensor.to_owned() };
        }
        LoadError::MissingTensor { tensor: tensor.to_owned(), explained: self.explained, whose: self.convention.whose }
    }
}

/// The names of a convention, to be looked up.
struct Terms {
    layer: &'static str,
    head: HashSet<&'static str>,
    outside: HashSet<&'static str>,
    inside: HashSet<&'static str>,
}

impl Terms {
    fn of(convention: &Convention) -> Self {
        let (mut head, mut outside, mut inside) = (HashSet::new(), HashSet::new(), HashSet::new());
        // Two layers of RWKV-7a have each weight.
        for weight in Weight::all(&ModelShape { deep_embed: Some(32), ..ModelShape::small(2, 64) }) {
            let names = match weight {
                Weight::Head => &mut head,
                Weight::Layer(..) => &mut inside,
                _ => &mut outside,
            };
            names.extend(convention.spellings(weight).into_iter().flatten().copied());
        }
        Terms { layer: convention.layer, head, outside, inside }
    }

    /// Whether a name, without its wrapper, is one of the convention's with this body.
    fn explain(&self, body: &str, name: &str) -> bool {
        let in_body = |name: &str| {
            self.outside.contains(name) || self.in_layer(name).is_some_and(|(_, name)| self.inside.contains(name))
        };
        self.head.contains(name) || name.strip_prefix(body).is_some_and(in_body)
    }

    /// The layer that a name without its body speaks of, and what follows.
    fn in_layer<'a>(&self, name: &'a str) -> Option<(u32, &'a str)> {
        let (number, name) = name.strip_prefix(self.layer)?.split_once('.')?;
        Some((number.parse().ok()?, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wgoose_graph::LayerWeight;

    fn naming(names: &[&str]) -> Naming {
        Naming::of(Container::Safetensors, names.iter().copied())
    }

    fn embedding(names: &[&str]) -> (&'static str, String) {
        let naming = naming(names);
        (naming.convention.whose, naming.names(Weight::Embedding).as_slice()[0].clone())
    }

    #[test]
    fn a_stray_name_of_another_convention_changes_nothing() {
        let authors = ["emb.weight", "blocks.0.ln1.weight", "blocks.0.att.w0", "head.weight"];
        for stray in ["model.embeddings.weight", "model.layers.0.attn.k_k", "model.blocks.0.ln1.bias", "lm_head.weight"]
        {
            let names = [&authors[..], &[stray]].concat();
            assert_eq!(embedding(&names), ("the authors' names", "emb.weight".into()), "{stray}");
        }
        let fla = ["model.embeddings.weight", "model.layers.0.attn.k_k", "model.layers.0.ffn.x_k", "emb.weight"];
        assert_eq!(embedding(&fla).0, fla::NAMES.whose);
        let decoder = ["model.embed_tokens.weight", "model.layers.0.linear_attn.k_k", "model.norm.bias", "emb.weight"];
        assert_eq!(embedding(&decoder).0, decoder::NAMES.whose);
    }

    #[test]
    fn the_head_tells_a_body_from_a_wrapper() {
        let body = ["model.emb.weight", "model.blocks.0.att.w0", "head.weight"];
        assert_eq!(embedding(&body), (port::NAMES.whose, "model.emb.weight".into()));
        let wrapped = ["model.emb.weight", "model.blocks.0.att.w0", "model.head.weight"];
        assert_eq!(embedding(&wrapped), (checkpoint::NAMES.whose, "model.emb.weight".into()));
        let both = ["rwkv.rwkv7.emb.weight", "rwkv.rwkv7.blocks.0.att.w0", "rwkv.head.weight"];
        assert_eq!(embedding(&both), (port::NAMES.whose, "rwkv.rwkv7.emb.weight".into()));
    }

    #[test]
    fn the_shorter_of_two_wrapped_names_counts() {
        let naming = naming(&["module.emb.weight", "emb.weight", "blocks._orig_mod.0.att.w0"]);
        assert_eq!(naming.names(Weight::Embedding).as_slice(), ["emb.weight"]);
        let decay = Weight::Layer(0, LayerWeight::DecayBias);
        assert_eq!(naming.names(decay).as_slice(), ["blocks._orig_mod.0.att.w0"]);
    }

    #[test]
    fn layers_are_counted_by_names_that_are_known() {
        assert_eq!(naming(&["blocks.0.att.w0", "blocks.2.att.w0", "blocks.7.mtp.w0", "blocks.x.att.w0"]).layers(), 3);
        assert_eq!(naming(&[]).layers(), 0);
    }
}
