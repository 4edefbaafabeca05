//! The models that one plan is for: the same sizes, and weights in the same formats.

use std::collections::{BTreeMap, BTreeSet};
use wgoose_graph::{Format, LayerWeight, ModelShape, Weight, WeightClass};

/// Sizes and weight formats of a model: models of one class have the same op instances, so that one plan is for all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelClass {
    shape: ModelShape,
    embedding: Format,
    /// Of the output head, if there is one.
    head: Option<Format>,
    /// Of the first layer.
    first: LayerFormats,
    /// Of the others, each combination once.
    others: BTreeSet<LayerFormats>,
}

/// The formats of a layer's matrices and adapters.
type LayerFormats = BTreeMap<LayerWeight, Format>;

impl ModelClass {
    /// The class of a model of that shape whose weights have these formats in the file. Vectors do not count: kernels read
    /// them as F32.
    pub fn of(shape: &ModelShape, format: impl Fn(Weight) -> Format) -> ModelClass {
        let counts = |role: &LayerWeight| role.class() != WeightClass::Vector;
        let layer = |i: u32| -> LayerFormats {
            let roles = LayerWeight::of_layer(shape, i).filter(counts);
            roles.map(|role| (role, format(Weight::Layer(i, role)))).collect()
        };
        ModelClass {
            shape: *shape,
            embedding: format(Weight::Embedding),
            head: shape.output_head.then(|| format(Weight::Head)),
            first: layer(0),
            others: (1..shape.layers).map(layer).collect(),
        }
    }

    /// The sizes.
    pub fn shape(&self) -> &ModelShape {
        &self.shape
    }

    /// What people call it: `32x2560-q4_k_m`, layers and width, then the formats' usual name; `12x768-7a-f16` of
    /// RWKV-7a.
    pub fn name(&self) -> String {
        let architecture = if self.shape.deep_embed.is_some() { "-7a" } else { "" };
        format!("{}x{}{architecture}-{}", self.shape.layers, self.shape.width, self.mix())
    }

    /// The usual name of the formats of the large matrices: the commonest one, then the others; `q4_k_m` and `q5_k_m` as
    /// llama.cpp has it.
    fn mix(&self) -> String {
        let mut counts: BTreeMap<Format, usize> = self.head.into_iter().map(|head| (head, 1)).collect();
        for layer in std::iter::once(&self.first).chain(&self.others) {
            for (_, format) in layer.iter().filter(|(role, _)| role.class() == WeightClass::Matrix) {
                *counts.entry(*format).or_default() += 1;
            }
        }
        let mut formats: Vec<Format> = counts.keys().copied().collect();
        formats.sort_by_key(|format| std::cmp::Reverse(counts[format]));
        match formats[..] {
            [main @ (Format::Q4_K | Format::Q5_K), Format::Q6_K] => format!("{}_m", main.name().to_lowercase()),
            _ => formats.iter().map(|f| f.name().to_lowercase()).collect::<Vec<_>>().join("-"),
        }
    }

    /// Everything in it as text: what names are made of. It must not change, or plans are not found any more.
    pub(crate) fn identity(&self) -> String {
        let ModelShape { layers, width, ffn, head_size, vocab, ranks: r, deep_embed, embedding_norm, output_head: _ } =
            self.shape;
        let head = self.head.map_or("none", Format::name);
        let mut text = format!(
            "{layers} {width} {ffn} {head_size} {vocab} {} {} {} {}\n{} {}\n",
            r.decay, r.iclr, r.value, r.gate, self.embedding, head
        );
        for layer in std::iter::once(&self.first).chain(&self.others) {
            let formats: Vec<&str> = layer.values().map(|format| format.name()).collect();
            text += &(formats.join(" ") + "\n");
        }
        if let Some(size) = deep_embed {
            text += &format!("deep embed {size}\n");
        }
        if !embedding_norm {
            text += "no norm of the embedding\n";
        }
        text
    }

    /// A model with one layer of each kind: it has the op instances of the whole model, each at least once.
    pub(crate) fn smallest(&self) -> ModelShape {
        ModelShape { layers: 1 + self.others.len() as u32, ..self.shape }
    }

    /// The format of a weight of that model in its file.
    pub(crate) fn format_in_smallest(&self, weight: Weight) -> Format {
        let layer = |i: u32| match i {
            0 => Some(&self.first),
            i => self.others.iter().nth(i as usize - 1),
        };
        match weight {
            Weight::Embedding => self.embedding,
            Weight::Head => self.head.unwrap_or(Format::F32),
            Weight::Layer(i, role) => layer(i).and_then(|formats| formats.get(&role)).copied().unwrap_or(Format::F32),
            _ => Format::F32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::class;
    use wgoose_loader::synth::Mix;

    #[test]
    fn classes_are_named_by_layers_width_and_formats() {
        let name = |mix| class("2.9B", mix).name();
        assert_eq!(name(Mix::Q4_K_M), "32x2560-q4_k_m");
        assert_eq!(name(Mix::F16), "32x2560-f16");
        let shape = ModelShape::preset("0.1B").unwrap();
        let odd = ModelClass::of(&shape, |w| if w == Weight::Head { Format::F16 } else { Format::Q8_0 });
        assert_eq!(odd.name(), "12x768-q8_0-f16");
    }

    #[test]
    fn formats_and_sizes_make_the_class_and_vectors_do_not() {
        let base = class("0.1B", Mix::Q4_K_M);
        assert_eq!(base, class("0.1B", Mix::Q4_K_M));
        assert_ne!(base.identity(), class("0.1B", Mix::Q5_K_M).identity());
        assert_ne!(base.identity(), class("0.4B", Mix::Q4_K_M).identity());
        let shape = ModelShape::preset("0.1B").unwrap();
        let with = |one: Weight| ModelClass::of(&shape, move |w| if w == one { Format::F16 } else { Format::F32 });
        assert_eq!(with(Weight::LnOutBias), with(Weight::Layer(3, LayerWeight::AttMix)));
        let [third, fourth] = [3, 4].map(|i| with(Weight::Layer(i, LayerWeight::Key)));
        assert_eq!(third, fourth, "which layers have a format is not seen by kernels");
        assert_ne!(third, with(Weight::Layer(0, LayerWeight::Key)));
        assert_eq!(third.smallest().layers, 3);
        let folded = ModelShape { embedding_norm: false, ..shape };
        let folded = ModelClass::of(&folded, |_| Format::F32).identity();
        assert_ne!(folded, ModelClass::of(&shape, |_| Format::F32).identity());
        let headless = ModelShape { output_head: false, ..shape };
        let format = |weight| if weight == Weight::Head { panic!("there is none") } else { Format::F32 };
        let headless = ModelClass::of(&headless, format);
        assert_ne!(headless.identity(), ModelClass::of(&shape, |_| Format::F32).identity());
        assert_eq!(headless.name(), "12x768-f32");
    }
}
